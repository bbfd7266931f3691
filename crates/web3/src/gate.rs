//! Who may ask: programs, and the web pages that the node's owner lets.
//!
//! reads   the headers `Host` and `Origin`
//! writes  yes or why not
//! memory  none
//! source  `--http.vhosts` and `--http.corsdomain` of geth, whose defaults are as strict
//!
//! A browser on the owner's machine reaches what listens on loopback, whatever page it shows. It says which page asks
//! (`Origin`), and by which name it has reached us (`Host`), which whoever owns the name may have pointed here.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};

/// Whether who asks may.
pub fn admits(headers: &HeaderMap, hosts: &[String], origins: &[String]) -> Result<(), &'static str> {
    let host_is_good = |value: &HeaderValue| value.to_str().is_ok_and(|host| is_host(host, hosts));
    if !headers.get_all(header::HOST).iter().all(host_is_good) {
        return Err("invalid host specified\n");
    }
    let origin_is_good = |value: &HeaderValue| value.to_str().is_ok_and(|origin| is_origin(origin, origins));
    if !headers.get_all(header::ORIGIN).iter().all(origin_is_good) {
        return Err("origin not allowed\n");
    }
    Ok(())
}

fn is_host(host: &str, more: &[String]) -> bool {
    let name = name_of(host);
    is_loopback(name) || name.parse::<IpAddr>().is_ok() || is_listed(name, more)
}

fn is_origin(origin: &str, more: &[String]) -> bool {
    match origin.split_once("://") {
        Some(("http" | "https", host)) if is_loopback(name_of(host)) => true,
        Some(("chrome-extension" | "moz-extension" | "safari-web-extension", _)) => true,
        _ => is_listed(origin, more),
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn is_listed(name: &str, list: &[String]) -> bool {
    list.iter().any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn foreign_pages_and_names_are_refused() {
        let table = [
            ("127.0.0.1:8545", None, true),
            ("localhost:8545", None, true),
            ("[::1]:8545", None, true),
            ("192.168.1.7:8545", None, true),
            ("evil.example:8545", None, false),
            ("localhost.evil.example", None, false),
            ("127.0.0.1:8545", Some("http://localhost:3000"), true),
            ("127.0.0.1:8545", Some("https://127.0.0.1"), true),
            ("127.0.0.1:8545", Some("chrome-extension://abcdef"), true),
            ("127.0.0.1:8545", Some("http://evil.example"), false),
            ("127.0.0.1:8545", Some("http://localhost.evil.example"), false),
            ("127.0.0.1:8545", Some("null"), false),
        ];
        for (host, origin, expected) in table {
            assert_eq!(admits(&headers(host, origin), &[], &[]).is_ok(), expected, "{host} {origin:?}");
        }
        let (hosts, origins) = (["node.example".to_owned()], ["http://dapp.example".to_owned()]);
        admits(&headers("node.example:8545", Some("http://dapp.example")), &hosts, &origins).unwrap();
        admits(&headers("other.example", None), &hosts, &origins).unwrap_err();
        admits(&headers("other.example", Some("null")), &["*".into()], &["*".into()]).unwrap();
    }
}

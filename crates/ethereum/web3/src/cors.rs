//! Checks which programs and web pages may use the server.
//!
//! reads   the headers `Host` and `Origin`
//! writes  a decision, with the reason for a refusal
//! source  `--http.vhosts` and `--http.corsdomain` of geth, whose defaults are as strict

use hearth_serve::http::{HeaderMap, HeaderValue, header};
use hearth_serve::origin::{is_loopback, is_unownable, name_of};

/// Returns whether a request's `Host` and `Origin` are allowed.
pub fn admits(headers: &HeaderMap, hosts: &[String], origins: &[String]) -> Result<(), &'static str> {
    let host_is_good = |value: &HeaderValue| value.to_str().is_ok_and(|host| is_host(host, hosts));
    if !headers.get_all(header::HOST).iter().all(host_is_good) {
        return Err("invalid host specified: list it with --allow-host\n");
    }
    // Requests of the server's own page.
    let own = headers.get(header::HOST).and_then(|host| Some(format!("http://{}", host.to_str().ok()?)));
    let is_good = |origin: &str| own.as_deref() == Some(origin) || is_origin(origin, origins);
    let origin_is_good = |value: &HeaderValue| value.to_str().is_ok_and(is_good);
    if !headers.get_all(header::ORIGIN).iter().all(origin_is_good) {
        return Err("origin not allowed: list it with --allow-origin\n");
    }
    Ok(())
}

fn is_host(host: &str, more: &[String]) -> bool {
    is_unownable(host) || is_listed(name_of(host), more)
}

fn is_origin(origin: &str, more: &[String]) -> bool {
    match origin.split_once("://") {
        Some(("http" | "https", host)) if is_loopback(host) => true,
        Some(("chrome-extension" | "moz-extension" | "safari-web-extension", _)) => true,
        _ => is_listed(origin, more),
    }
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
            ("192.168.1.7:8545", Some("http://192.168.1.7:8545"), true),
            ("192.168.1.7:8545", Some("http://192.168.1.8:8545"), false),
            ("evil.example:8545", Some("http://evil.example:8545"), false),
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

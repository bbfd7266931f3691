//! Distinguishes requests of programs from those of web pages in a browser.
//!
//! reads   the headers `Host` and `Origin`
//! writes  yes or no
//!
//! A browser on the owner's machine can reach services on loopback, whichever page it shows. It names the page
//! (`Origin`) and the host name under which it reached us (`Host`); the owner of that name may have pointed it here.
//! Programs send neither, browsers cannot avoid it.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

/// A host without its port.
pub fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    }
}

/// Whether a host, with its port or without, is loopback's.
pub fn is_loopback(host: &str) -> bool {
    let name = name_of(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether a host, with or without port, is an address or `localhost`: a name that an attacker cannot own.
pub fn is_unownable(host: &str) -> bool {
    let name = name_of(host);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Whether a web page may have made the request, in a browser on the owner's machine: it names the page's site, or has
/// reached the node by a name that is not of loopback.
pub fn may_be_web_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || hosts(headers).any(|host| !is_loopback(host))
}

/// Whether the node was reached from its own machine by a name that is neither an address nor `localhost`: in that case
/// a web page of the name's owner could send requests from a browser, and read the answers.
pub fn is_foreign(address: IpAddr, headers: &HeaderMap) -> bool {
    address.to_canonical().is_loopback() && hosts(headers).any(|host| !is_unownable(host))
}

/// The host names in the request; values that are not text are skipped.
fn hosts(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers.get_all(header::HOST).iter().map(|host| std::str::from_utf8(host.as_bytes()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be_anybodys_are_foreign_to_a_machine_itself() {
        let asks = |address: &str, host: &str| {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            is_foreign(address.parse().unwrap(), &headers)
        };
        for host in ["localhost:8899", "127.0.0.1:8899", "[::1]:8899", "10.0.0.1:8899"] {
            assert!(!asks("127.0.0.1", host), "{host}");
        }
        for host in ["a.page:8899", "", "127.0.0.1.a.page"] {
            assert!(asks("127.0.0.1", host) && asks("::1", host), "{host}");
        }
        assert!(!asks("10.0.0.2", "a.node:8899"), "who comes from elsewhere may know it by its name");
        assert!(!is_foreign([127, 0, 0, 1].into(), &HeaderMap::new()));
    }

    #[test]
    fn names_of_loopback_are_distinguished_from_others() {
        for host in ["localhost", "LocalHost:8899", "127.0.0.1:8899", "127.8.8.8", "[::1]:8899", "[::ffff:127.0.0.1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", ":8899", "a.page", "localhost.a.page:8899", "127.0.0.1.a.page", "10.0.0.1:8899", "[::2]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}

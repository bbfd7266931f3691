//! page: a report as one HTML file, without external files or network access, in the reader's light or dark theme.
//!
//! reads   a body, made of text that [`text::escape`] has escaped
//! writes  HTML
//!
//! Reports may contain text of foreign programs. So the page's policy forbids every script but its own, by its hash,
//! and every request.

pub mod text;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hearth_crypto::sha256::sha256;

use text::escape;

/// Style shared by all pages.
const STYLE: &str = include_str!("style.css");

/// Builds the page. Its own style follows the shared one; an empty script is left out.
pub fn document(title: &str, style: &str, script: &str, body: &str) -> String {
    let hash = BASE64_STANDARD.encode(sha256(&[script.as_bytes()]));
    let (allowed, script) = match script.is_empty() {
        true => (String::new(), String::new()),
        false => (format!(" script-src 'sha256-{hash}';"), format!("<script>{script}</script>\n")),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline';{allowed} base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}{style}</style>\n\
         </head>\n<body>\n{body}{script}</body>\n</html>\n",
        escape(title),
    )
}

/// The step of an axis: one, two or five of a power of ten, and no less.
pub fn even(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|step| *step >= value * 0.999_999).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_allows_its_own_script_alone() {
        let page = document("a <b>", ".x {}", "go()", "<p>x</p>\n");
        let hash = BASE64_STANDARD.encode(sha256(&[b"go()"]));
        assert!(page.contains(&format!("script-src 'sha256-{hash}'")) && page.contains("<script>go()</script>"));
        assert!(page.contains("<title>a &lt;b&gt;</title>") && page.contains(".x {}</style>"));
        let still = document("a", "", "", "");
        assert!(!still.contains("script"), "{still}");
    }

    #[test]
    fn steps_are_even() {
        assert_eq!([0.7, 1.0, 3.0, 5.1, 0.0, f64::NAN].map(even), [1.0, 1.0, 5.0, 10.0, 1.0, 1.0]);
        assert!((even(3e-12) - 5e-12).abs() < 1e-20);
    }
}

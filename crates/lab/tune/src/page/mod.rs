//! A study as one HTML page: the recommendation, the values of all builds, the front, the effects of options.
//!
//! reads   an [`Answer`]; for a study of builds its [`Report`]
//! writes  self-contained HTML without scripts
//! memory  the page
//! drops   builds beyond what a page can show; it says how many

mod axis;
mod plots;
mod sections;

use hearth_page::document;

use crate::analysis::Answer;
use crate::matrix::report::Report;

const STYLE: &str = include_str!("style.css");

/// Returns the page of an answer.
pub fn of_answer(answer: &Answer) -> String {
    document("Which build is best", STYLE, "", &sections::all(answer, None))
}

/// Returns the page of a study of builds.
pub fn of_study(report: &Report) -> String {
    document("Which build is best", STYLE, "", &sections::all(&report.answer, Some(report)))
}

#[cfg(test)]
mod tests {
    use hearth_stats::table::Table;

    use super::*;
    use crate::analysis::{Question, Rule, analyze};

    const EVIL: &str = "<script>alert(1)</script>\"'&";

    fn study() -> Answer {
        study_by(Rule::Bootstrap)
    }

    fn study_by(rule: Rule) -> Answer {
        let mut text = "nb_build,lto,metric,value,repetition\n".to_owned();
        let mut row = |build: &str, lto: &str, metric: &str, value: f64, round: u32| {
            let mut writer = csv::Writer::from_writer(Vec::new());
            let cells = [build, lto, metric, &value.to_string(), &round.to_string()];
            writer.write_record(cells).expect("written");
            text.push_str(&String::from_utf8(writer.into_inner().expect("written")).expect("text"));
        };
        for round in 1..=8 {
            let noise = f64::from(round * 7 % 5);
            for (build, lto, speed, size) in
                [("plain", "off", 1e5, 9e6), ("fat", "fat", 1.2e5, 1e7), (EVIL, EVIL, 9e4, 8e6)]
            {
                let odd = if round == 3 { 4e4 } else { 0.0 };
                row(build, lto, "speed", speed + 900.0 * noise + odd, round);
                row(build, lto, "size", size, round);
                row(build, lto, EVIL, noise, round);
            }
        }
        let question = Question {
            max: vec!["speed".into()],
            min: vec!["size".into()],
            reference: Some("plain".into()),
            rule,
            ..Question::default()
        };
        analyze(Table::read(text.as_bytes()).expect("fine"), &question).expect("answered")
    }

    #[test]
    fn the_page_has_every_plot_and_asks_for_nothing() {
        let html = of_answer(&study());
        for plot in ["values of speed", "values of size", "speed and size", "effects on speed", "effects on size"] {
            assert!(html.contains(&format!("data-plot=\"{plot}\"")), "{plot}");
        }
        assert!(html.contains("class=\"outlier\"") && html.contains("class=\"error\""));
        assert_eq!(html.matches("class=\"point ").count(), 3);
        for ask in ["src=\"", "href=", "@import", "url(", "NaN", "inf%"] {
            assert!(!html.contains(ask), "{ask}");
        }
    }

    #[test]
    fn rule_compares_build_with_reference() {
        let found = study_by(Rule::Article);
        let html = of_answer(&found);
        let fat = found.table.build("fat").expect("there");
        let by = found.percents(fat)[0].expect("above zero");
        assert!(html.contains(&format!("<td>{by:+.2} %</td>")), "{html}");
        assert!(!html.contains("% better"), "no interval is known, so no verdict");
        assert!(of_answer(&study()).contains("% better"));
    }

    #[test]
    fn words_of_others_stay_words() {
        let html = of_answer(&study());
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
        assert!(html.contains("default-src 'none'"));
    }
}

//! The look of all SVG pictures: their colours, the card around them, and escaped text.
//!
//! ```
//! use evictd_picture::{TEXT, escaped, on_card};
//!
//! let text = format!("<text fill=\"{TEXT}\">{}</text>\n", escaped("a<b"));
//! let svg = on_card((100.0, 20.0), "Two names", &text);
//! assert!(svg.starts_with("<svg ") && svg.contains("a&lt;b"));
//! ```
#![forbid(unsafe_code)]

/// The background of the card.
pub const BACKGROUND: &str = "#0d1117";
/// The card's edge, and lines of a grid.
pub const FRAME: &str = "#30363d";
/// Text.
pub const TEXT: &str = "#d5dbe3";
/// Text and lines of less importance.
pub const FAINT: &str = "#7d8793";
/// Success.
pub const GREEN: &str = "#3fb950";
/// Failure.
pub const RED: &str = "#ff6a69";
/// A warning.
pub const YELLOW: &str = "#e3b341";
/// Emphasis.
pub const CYAN: &str = "#56d4dd";

/// A picture of this width and height: the content on a card. `label` is for screen readers.
pub fn on_card((width, height): (f64, f64), label: &str, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"9\" fill=\"{BACKGROUND}\" stroke=\"{FRAME}\"/>\n\
         {content}</svg>\n",
        escaped(label),
        width - 1.0,
        height - 1.0,
    )
}

/// A text that cannot break the picture.
pub fn escaped(text: &str) -> String {
    // XML allows no control characters.
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_picture() {
        assert_eq!(escaped("a<b>&\u{1b}c"), "a&lt;b&gt;&amp;c");
    }
}

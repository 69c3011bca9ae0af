//! How things look. Without colours (`NO_COLOR`) what matters is bold or reversed.

use ratatui::style::{Color, Modifier, Style};

/// A choice of styles.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    has_colours: bool,
}

impl Theme {
    /// As the environment wants it: any text in `NO_COLOR` means no colours (no-color.org).
    pub fn of_environment() -> Self {
        let no_colours = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            has_colours: !no_colours,
        }
    }

    /// With colours, or without.
    #[cfg(test)]
    pub fn new(has_colours: bool) -> Self {
        Self { has_colours }
    }

    fn coloured(self, style: Style, colour: Color) -> Style {
        match self.has_colours {
            true => style.fg(colour),
            false => style,
        }
    }

    /// Names of things.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is not looked at first.
    pub fn quiet(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Headings of a table; the one that it is sorted by.
    pub fn heading(self, is_sorted_by: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        match is_sorted_by {
            true => style.add_modifier(Modifier::UNDERLINED),
            false => style,
        }
    }

    /// A program: chosen, above its budget.
    pub fn row(self, is_chosen: bool, is_above: bool) -> Style {
        let mut style = Style::new();
        if is_above {
            style = self.coloured(style, Color::Red);
        }
        if is_chosen {
            style = style.add_modifier(Modifier::BOLD | Modifier::REVERSED);
        }
        style
    }

    /// A curve.
    pub fn curve(self) -> Style {
        self.coloured(Style::new(), Color::Cyan)
    }

    /// What is said at the bottom.
    pub fn note(self, is_error: bool) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        match is_error {
            true => self.coloured(style, Color::Red),
            false => style,
        }
    }
}

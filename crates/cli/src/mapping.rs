//! A line of `/proc/PID/maps`.

/// What a line tells of a mapping.
pub struct Mapping<'a> {
    /// Its first address, and the first one behind it.
    pub range: (u64, u64),
    /// `rwxp` flags.
    pub permissions: &'a str,
    /// Whether a file lies behind it.
    pub is_of_a_file: bool,
    /// First word of its path or name; empty for plain anonymous memory.
    pub name: &'a str,
}

impl<'a> Mapping<'a> {
    /// Reads a line. `None` where it is not such a line.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            range: (address(start)?, address(end)?),
            permissions: fields.next()?,
            is_of_a_file: fields.nth(2)? != "0",
            name: fields.next().unwrap_or(""),
        })
    }
}

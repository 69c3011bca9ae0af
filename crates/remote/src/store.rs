//! What is asked of a store of objects, and why it may fail.

/// What went wrong with a store, by what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// There was no answer in time.
    Timeout,
    /// There is no connection, or it was lost.
    Unreachable,
    /// The store cannot do it now, and may soon.
    Busy,
    /// The store does not accept who asks, or does not allow it to do this.
    Denied,
    /// There is no such bucket or database.
    NoSuchPlace,
    /// The store has no room.
    NoSpace,
    /// There is no such object, or it is too short.
    Missing,
    /// Anything else that the store answers.
    Other,
    /// Nothing was asked: the store failed a moment ago.
    Resting,
}

impl Failure {
    const ALL: [Self; 9] = [
        Self::Timeout,
        Self::Unreachable,
        Self::Busy,
        Self::Denied,
        Self::NoSuchPlace,
        Self::NoSpace,
        Self::Missing,
        Self::Other,
        Self::Resting,
    ];

    /// What a counter has of it: 0 is none.
    pub(crate) fn to_byte(failure: Option<Self>) -> u8 {
        failure.map_or(0, |failure| failure as u8 + 1)
    }

    /// The reverse of [`Self::to_byte`].
    pub(crate) fn of_byte(byte: u8) -> Option<Self> {
        let place = usize::from(byte).checked_sub(1)?;
        Self::ALL.get(place).copied()
    }

    /// It, in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Timeout => "no answer in time",
            Self::Unreachable => "no connection",
            Self::Busy => "cannot do it now",
            Self::Denied => "access denied",
            Self::NoSuchPlace => "no such bucket or database",
            Self::NoSpace => "no room",
            Self::Missing => "no such object",
            Self::Other => "an error",
            Self::Resting => "failed a moment ago",
        }
    }

    /// Whether another attempt may succeed.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Timeout | Self::Unreachable | Self::Busy)
    }
}

/// Why a store did not do what it was asked to. The text has no secret in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct StoreError {
    /// Its kind.
    pub failure: Failure,
    /// What the store or the library says, in words.
    pub text: String,
}

impl StoreError {
    /// An error of this kind.
    pub fn new(failure: Failure, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { failure, text }
    }
}

/// A store of objects. Each call is one attempt, which ends in time; it may be repeated, whatever became of it.
pub trait Store: Send {
    /// Stores an object under this name, in place of one that is there.
    ///
    /// # Errors
    /// It may be stored or not.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// Reads an object from `offset` on. How many bytes, which are fewer than asked for where it ends.
    ///
    /// # Errors
    /// [`Failure::Missing`]: there is nothing at this offset.
    fn get(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, StoreError>;

    /// Deletes these objects. One that is not there is no error.
    ///
    /// # Errors
    /// Some may be deleted.
    fn delete(&mut self, names: &[String]) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_its_byte() {
        for failure in Failure::ALL {
            let byte = Failure::to_byte(Some(failure));
            assert_eq!(Failure::of_byte(byte), Some(failure));
        }
        assert_eq!(Failure::of_byte(Failure::to_byte(None)), None);
        assert_eq!(Failure::of_byte(u8::MAX), None);
    }
}

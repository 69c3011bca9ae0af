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

//! Records with a fixed layout, which a reader built from a C header understands.
//!
//! `record!` declares a `#[repr(C)]` structure once; from this one
//! declaration come the layout as a table (so that a test can hold the C header against it), and
//! writing and reading bytes field by field, without `unsafe`. Invariants:
//!
//! * I1 No padding: the fields cover the record without gaps, so no byte of it is ever left
//!   unwritten. Checked when it is compiled.
//! * I2 A record that was published never changes: what grows is a new record with a new version
//!   ([`query`](super::query)).

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, in C too.
    pub name: &'static str,
    /// Where it begins.
    pub offset: usize,
    /// How long it is.
    pub bytes: usize,
}

/// A record's name in C and its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `struct` this in C.
    pub c_name: &'static str,
    /// Its length.
    pub bytes: usize,
    /// Its fields in their order.
    pub fields: &'static [Field],
}

/// A record with a fixed layout.
pub trait Record: Copy + Default {
    /// The layout.
    const LAYOUT: Layout;

    /// Writes the record, in the machine's byte order.
    ///
    /// # Panics
    /// If `out` is shorter than the record.
    fn write_to(&self, out: &mut [u8]);

    /// Reads a record, or `None` where there are too few bytes.
    fn read_from(bytes: &[u8]) -> Option<Self>;
}

/// What fields can be.
pub trait Plain: Copy {
    /// Writes the value into as many bytes as it has.
    fn put(self, out: &mut [u8]);

    /// Reads it from them.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($type:ty)*) => {$(
        impl Plain for $type {
            fn put(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_ne_bytes());
            }

            fn get(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("as many bytes as it has"))
            }
        }
    )*};
}

plain!(u32 u64 i64);

impl<const N: usize> Plain for [u64; N] {
    fn put(self, out: &mut [u8]) {
        for (word, out) in self.iter().zip(out.chunks_exact_mut(8)) {
            word.put(out);
        }
    }

    fn get(bytes: &[u8]) -> Self {
        core::array::from_fn(|n| u64::get(&bytes[n * 8..n * 8 + 8]))
    }
}

/// Declares a record: `#[c_name = "…"] pub struct Name { field: type, … }`, everything documented.
/// With `Name(figures: Source) { field: type = value, … }` it is also made from a `&Source`.
macro_rules! record {
    (
        $(#[doc = $doc:literal])+
        #[c_name = $c_name:literal]
        pub struct $name:ident($figures:ident: $source:ty) {
            $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty = $value:expr,)+
        }
    ) => {
        $crate::vm::metrics::record::record! {
            $(#[doc = $doc])+
            #[c_name = $c_name]
            pub struct $name {
                $($(#[doc = $field_doc])+ $field: $type,)+
            }
        }

        impl From<&$source> for $name {
            fn from($figures: &$source) -> Self {
                Self {
                    $($field: $value,)+
                }
            }
        }
    };
    (
        $(#[doc = $doc:literal])+
        #[c_name = $c_name:literal]
        pub struct $name:ident {
            $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[doc = $field_doc])+ pub $field: $type,)+
        }

        // I1.
        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())+, "padding");

        impl $crate::vm::metrics::record::Record for $name {
            const LAYOUT: $crate::vm::metrics::record::Layout = $crate::vm::metrics::record::Layout {
                c_name: $c_name,
                bytes: size_of::<Self>(),
                fields: &[$($crate::vm::metrics::record::Field {
                    name: stringify!($field),
                    offset: core::mem::offset_of!(Self, $field),
                    bytes: size_of::<$type>(),
                },)+],
            };

            fn write_to(&self, out: &mut [u8]) {
                $({
                    let at = core::mem::offset_of!(Self, $field);
                    let out = &mut out[at..at + size_of::<$type>()];
                    $crate::vm::metrics::record::Plain::put(self.$field, out);
                })+
            }

            fn read_from(bytes: &[u8]) -> Option<Self> {
                let bytes = bytes.get(..size_of::<Self>())?;
                Some(Self {
                    $($field: {
                        let at = core::mem::offset_of!(Self, $field);
                        $crate::vm::metrics::record::Plain::get(&bytes[at..at + size_of::<$type>()])
                    },)+
                })
            }
        }
    };
}

pub(crate) use record;

//! Page codecs: compress one 4 KiB page into a bounded buffer, and back.

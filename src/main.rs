//! The binary `appwrapper`: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    appwrapper::cli::main()
}

//! `appwrapper crd`

use std::process::ExitCode;

use super::{DONE, Error, term};

pub(super) fn crd() -> Result<ExitCode, Error> {
    let yaml = crate::crd::yaml().map_err(|error| Error::Usage(error.to_string()))?;
    term::print_own(&yaml);
    Ok(DONE)
}

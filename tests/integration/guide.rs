//! The appendix of docs/dev/conformance.md: each line of the documents has a row, each row the tests
//! that show it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Documents of the appendix, as the ids of their rows begin.
const DOCUMENTS: [&str; 5] = ["FT", "262", "672", "3329", "A"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A row: its id, what is said of AppWrapper, and the names of tests and samples.
struct Row {
    id: String,
    said: String,
    tests: String,
}

/// The row that a line of the page is; none where it is something else.
fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [id, _section, _document, said, tests] = cells[..] else { return None };
    let (document, number) = id.rsplit_once('-')?;
    let is_id = DOCUMENTS.contains(&document) && number.parse::<u32>().is_ok();
    is_id.then(|| Row { id: id.into(), said: said.into(), tests: tests.into() })
}

/// The names between backticks, which commas separate; nothing else may be there.
fn names(cell: &str) -> Option<Vec<&str>> {
    let name = |part| str::strip_suffix(str::strip_prefix(part, "`")?, "`");
    cell.split(", ").map(name).collect()
}

/// How often a function of each name is declared, in all sources.
fn functions(folder: &Path, found: &mut BTreeMap<String, usize>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            for part in text.split("fn ").skip(1) {
                let Some((name, _)) = part.split_once('(') else { continue };
                *found.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
}

/// A name may stand for one function only, so that nobody looks at the wrong one.
fn is_known(name: &str, functions: &BTreeMap<String, usize>) -> bool {
    let is_sample = Path::new(name).extension().is_some_and(|extension| extension == "yaml");
    if is_sample {
        return root().join("samples/policies").join(name).is_file();
    }
    functions.get(name) == Some(&1)
}

#[test]
fn every_row_of_the_appendix_names_the_tests_that_show_it() {
    let path = root().join("docs/dev/conformance.md");
    let page = std::fs::read_to_string(path).expect("a readable page");
    let mut declared = BTreeMap::new();
    functions(&root().join("src"), &mut declared);
    functions(&root().join("crates"), &mut declared);
    functions(&root().join("tests"), &mut declared);
    let appendix = page.split("\n## ").last().expect("a last section");
    let mut ids = BTreeSet::new();
    let mut wrong = vec![];
    for Row { id, said, tests } in appendix.lines().filter_map(row) {
        if tests == "—" {
            if !said.starts_with("not applicable") {
                wrong.push(format!("{id}: no test"));
            }
        } else if let Some(names) = names(&tests) {
            let unknown = names.into_iter().filter(|name| !is_known(name, &declared));
            wrong.extend(unknown.map(|name| format!("{id}: no test, or several, named {name}")));
        } else {
            wrong.push(format!("{id}: {tests}"));
        }
        if !ids.insert(id.clone()) {
            wrong.push(format!("{id}: twice"));
        }
    }
    let of = |document: &&str| {
        let numbers = ids.iter().filter_map(|id| id.rsplit_once('-'));
        numbers.filter(|(begin, _)| begin == document).count()
    };
    let counts: Vec<usize> = DOCUMENTS.iter().map(of).collect();
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(counts, [48, 34, 27, 86, 55], "rows of each document");
    // a row that is no row for the reader above would hide from it
    let begins = appendix.lines().filter(|line| {
        DOCUMENTS.iter().any(|document| line.starts_with(&format!("| {document}-")))
    });
    assert_eq!(begins.count(), ids.len());
}

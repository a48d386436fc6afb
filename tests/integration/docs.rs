//! What the documents list is what there is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use appwrapper::api::keys;
use appwrapper::cli::Cli;
use appwrapper::tuning::KEYS;
use clap::Parser;
use serde_json::Value;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The keys that stand in back quotes at the beginning of a table's rows.
fn rows(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(key, _)| key.to_owned()).collect()
}

#[test]
fn every_key_of_the_configuration_has_a_row() {
    let file: Value = serde_saphyr::from_str(&read("config/appwrapper.yaml")).expect("YAML");
    let mut keys = BTreeSet::new();
    for (section, value) in file.as_object().expect("an object") {
        match value {
            Value::Object(fields) => {
                keys.extend(fields.keys().map(|field| format!("{section}.{field}")));
            }
            _ => _ = keys.insert(section.clone()),
        }
    }
    // they have no default, so the file has them in comments
    keys.insert("retryPolicy.defaultBackoff".to_owned());
    keys.insert("retryPolicy.refill".to_owned());
    assert_eq!(rows(&read("docs/admin/configuration.md")), keys);
}

#[test]
fn every_kind_of_the_registry_has_a_row() {
    let page = read("docs/user/kinds.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for row in appwrapper::kinds::Kind::all() {
        let name = format!("| `{}` ", row.api_version);
        let of_it = rows.iter().filter(|line| line.starts_with(&name));
        let mut words = of_it.filter_map(|line| line[name.len()..].split(" |").next());
        assert!(words.any(|kinds| kinds.split(", ").any(|kind| kind == row.kind)), "{}", row.kind);
    }
}

#[test]
fn every_annotation_has_a_row_and_a_section() {
    let name = |key: &&str| key.strip_prefix(keys::ANNOTATION_PREFIX).map(str::to_owned);
    let known: BTreeSet<String> = KEYS.iter().filter_map(name).collect();
    assert_eq!(known.len(), KEYS.len());
    let readme = read("README.md");
    let (_, table) = readme.split_once("\n## Annotations\n").expect("the section");
    let table = table.split("\n## ").next().unwrap_or_default();
    assert_eq!(rows(table), known, "the table of README.md");
    let page = read("docs/user/annotations.md");
    let table = page.split("\n## ").next().unwrap_or_default();
    assert_eq!(rows(&table.replace("| [`", "| `")), known, "the table of annotations.md");
    // the titles of other sections have more than one word
    let titles = page.lines().filter_map(|line| line.strip_prefix("## "));
    let sections: BTreeSet<String> =
        titles.filter(|title| !title.contains(' ')).map(str::to_owned).collect();
    assert_eq!(sections, known, "the sections of annotations.md");
    for name in known {
        let link = format!("| [`{name}`](#{}) |", name.to_lowercase());
        assert!(page.contains(&link), "{name}: the row leads to the section");
        let example = format!("\n{}{name}: ", keys::ANNOTATION_PREFIX);
        assert!(page.contains(&example), "{name}: an example");
    }
}

/// The files with an extension in a folder and in its folders.
pub fn pages(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            pages(&path, extension, found);
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
}

/// The paths of tests that stand in back quotes, such as `module::tests::name`.
fn tests_named_in(page: &str) -> BTreeSet<&str> {
    let is_name = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter(|text| text.contains("::") && text.split("::").all(is_name)).collect()
}

/// The source files in these folders, each with the names of its folders and modules.
fn sources(folders: &[&str]) -> Vec<(Vec<String>, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![];
    for folder in folders {
        pages(&root.join(folder), "rs", &mut files);
    }
    let names = |path: &Path| {
        let path = path.strip_prefix(root).expect("a file of the repository").with_extension("");
        let names = path.iter().map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| !["mod", "lib", "main"].contains(&name.as_str())).collect()
    };
    let text = |path: &Path| std::fs::read_to_string(path).expect("it can be read");
    files.iter().map(|path| (names(path), text(path))).collect()
}

/// The source in these folders.
fn code(folders: &[&str]) -> String {
    sources(folders).into_iter().map(|(_, text)| text).collect()
}

/// Whether one of these files has the test of this path: in its own module, or in a module `tests` of the file.
fn has_test(sources: &[(Vec<String>, String)], path: &str) -> bool {
    let mut modules: Vec<&str> = path.split("::").collect();
    let function = format!("fn {}(", modules.pop().unwrap_or_default());
    let inline = modules.strip_suffix(&["tests"]);
    sources.iter().filter(|(_, text)| text.contains(&function)).any(|(names, _)| {
        let ends_with = |modules: &[&str]| {
            let mut ends = names.iter().rev().zip(modules.iter().rev());
            names.len() >= modules.len() && ends.all(|(name, module)| name == module)
        };
        ends_with(&modules) || inline.is_some_and(ends_with)
    })
}

#[test]
fn every_reason_of_an_event_has_a_row() {
    let page = read("docs/user/troubleshooting.md");
    let (_, events) = page.split_once("## Events").expect("a section");
    let first = events.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let told: BTreeSet<&str> =
        first.flat_map(|(cell, _)| cell.split(", ")).map(|cell| cell.trim_matches('`')).collect();
    let code = code(&["crates/core/src/decide", "crates/controller/src"]);
    let begins = ["draft.warn(\"", "Warning { reason: \""];
    let used = begins.iter().flat_map(|begin| code.split(begin).skip(1));
    let used: BTreeSet<&str> = used.filter_map(|rest| Some(rest.split_once('"')?.0)).collect();
    assert!(used.len() > 5, "{used:?}");
    assert!(used.is_subset(&told), "{used:?} are not all in {told:?}");
    let all = self::code(&["crates/core/src", "crates/controller/src"]);
    for reason in told {
        assert!(all.contains(&format!("\"{reason}\"")), "nothing has the reason {reason}");
    }
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let page = read("docs/admin/security.md");
    let sources = sources(&["crates", "src", "tests"]);
    let named = tests_named_in(&page);
    assert!(named.len() > 100, "{named:?}");
    for path in named {
        assert!(has_test(&sources, path), "{path}");
    }
}

#[test]
fn a_test_is_found_only_in_the_module_that_is_named() {
    let of = |names: &str, function: &str| -> (Vec<String>, String) {
        (names.split('/').map(str::to_owned).collect(), format!("    fn {function}() {{}}"))
    };
    let sources =
        [of("crates/c/src/observe/seen", "reads"), of("crates/c/src/web/tests/answer", "answers")];
    for (path, want) in [
        ("observe::seen::tests::reads", true),
        ("seen::tests::reads", true),
        ("observe::seen::reads", true),
        ("observe::other::tests::reads", false),
        ("other::seen::tests::reads", false),
        ("observe::seen::tests::answers", false),
        ("web::tests::answer::answers", true),
        ("web::tests::response::answers", false),
    ] {
        assert_eq!(has_test(&sources, path), want, "{path}");
    }
}

/// The anchor of a title, as GitHub and mdBook make it.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Whether a page has a title with this anchor.
fn has_title(page: &Path, wanted: &str) -> bool {
    let text = std::fs::read_to_string(page).expect("it can be read");
    let mut titles = text.lines().filter(|line| line.starts_with('#'));
    titles.any(|line| anchor(line.trim_start_matches('#').trim()) == wanted)
}

/// Links between the documents lead somewhere.
#[test]
fn links_lead_to_files_and_titles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = vec![];
    pages(&root.join("docs"), "md", &mut all);
    all.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let mut count = 0;
    for path in all {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        for (_, rest) in text.match_indices("](").map(|(at, _)| text.split_at(at + 2)) {
            let link = rest.split(')').next().unwrap_or_default();
            let (target, title) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") {
                continue;
            }
            let target = if target.is_empty() { path.clone() } else { path.with_file_name(target) };
            assert!(target.exists(), "{} names {}", path.display(), target.display());
            let is_there = title.is_empty() || has_title(&target, title);
            assert!(is_there, "{} names {link}", path.display());
            count += 1;
        }
    }
    assert!(count > 20, "the links were found");
}

/// Without any webhook, the API server would accept unchecked AppWrappers.
#[test]
fn the_switch_deletes_webhooks_after_it_has_applied_others() {
    let page = read("docs/admin/upgrade.md");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let applies = [
        "kubectl apply --server-side --force-conflicts -k",
        "kubectl apply --server-side --force-conflicts -f GO-MANIFESTS",
        "helm install",
    ];
    let mut count = 0;
    for block in blocks {
        let line = |text: &str| block.lines().position(|line| line.trim_start().starts_with(text));
        let created = applies.iter().find_map(|text| line(text));
        for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
            let Some(deleted) = line(&format!("kubectl delete {kind} ")) else { continue };
            assert!(created.is_some_and(|created| created < deleted), "{block}");
            count += 1;
        }
    }
    assert_eq!(count, 6, "over with kubectl and with Helm, and back");
}

/// The arguments of the commands in a line of a code block: what follows the name of the program, up to what is for
/// the shell.
fn commands(line: &str) -> impl Iterator<Item = Vec<&str>> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    line.split(" && ").filter_map(|command| {
        let begin = ["kubectl aw ", "appwrapper "];
        let arguments = begin.iter().find_map(|begin| command.strip_prefix(begin))?;
        let words = arguments.split_whitespace();
        Some(words.take_while(|word| !word.starts_with(['|', '>', '#', '<', '&'])).collect())
    })
}

#[test]
fn the_commands_of_the_documents_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = vec![root.join("README.md")];
    pages(&root.join("docs"), "md", &mut all);
    let mut count = 0;
    for page in all {
        let text = std::fs::read_to_string(&page).expect("a page");
        let blocks = text.split("\n```").skip(1).step_by(2);
        let in_shell = |block: &&str| ["sh\n", "console\n"].iter().any(|it| block.starts_with(it));
        for arguments in blocks.filter(in_shell).flat_map(str::lines).flat_map(commands) {
            // NAME stands for a name
            let words = arguments
                .iter()
                .map(|word| word.replace("NAMESPACE", "ns").replace("NAME", "name"));
            let parsed = Cli::try_parse_from(std::iter::once("appwrapper".to_owned()).chain(words));
            let said = parsed.err().map(|error| error.to_string());
            assert_eq!(said, None, "{}: {arguments:?}", page.display());
            count += 1;
        }
    }
    assert!(count > 30, "{count} commands were found");
}

//! The site of the documentation: what is rendered, and where its links lead.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::docs::pages;

/// The texts between two marks.
fn between<'t>(text: &'t str, begin: &str, end: char) -> impl Iterator<Item = &'t str> {
    let parts: Vec<&str> = text.split(begin).skip(1).collect();
    parts.into_iter().filter_map(move |part| Some(part.split_once(end)?.0))
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

fn ids(page: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(page).expect("a page");
    between(&text, " id=\"", '"').map(str::to_owned).collect()
}

#[test]
#[ignore = "nightly: needs mdbook"]
fn every_link_of_the_site_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
    drop(std::fs::remove_dir_all(&out));
    let rendered = Command::new(root.join("scripts/site")).arg(&out).output().expect("it runs");
    let said = String::from_utf8_lossy(&rendered.stderr);
    assert!(rendered.status.success(), "{said}");
    let index = std::fs::read_to_string(root.join("docs/README.md")).expect("the index");
    for page in between(&index, "](", ')') {
        let page = plain(&out.join("docs").join(page)).with_extension("html");
        assert!(page.is_file(), "{} is not rendered", page.display());
    }
    let mut all = vec![];
    pages(&out, "html", &mut all);
    // what mdBook makes besides the pages
    let own = ["print.html", "404.html", "toc.html"];
    all.retain(|page| !own.iter().any(|name| page.ends_with(name)));
    let mut count = 0;
    for page in &all {
        let text = std::fs::read_to_string(page).expect("a page");
        let (_, main) = text.split_once("<main>").expect("its content");
        for link in between(main.split("</main>").next().unwrap_or_default(), " href=\"", '"') {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, id) =
                link.split_once('#').map_or((link, None), |(path, id)| (path, Some(id)));
            let target = match path {
                "" => page.clone(),
                path => plain(&page.with_file_name("").join(path)),
            };
            assert!(target.exists(), "{} links to {link}", page.display());
            if let Some(id) = id.filter(|_| target.extension().is_some_and(|end| end == "html")) {
                assert!(ids(&target).contains(id), "{} links to {link}", page.display());
            }
            count += 1;
        }
    }
    assert!(all.len() > 20 && count > 100, "{} pages, {count} links", all.len());
}

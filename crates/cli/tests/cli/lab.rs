//! The lab's pages in a browser: rendered by headless Chromium, if it is installed.

use super::{directory, run_well};
use splitpoint::HashKind;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A page, how to make it, and what must be in it.
struct Sample {
    name: &'static str,
    arguments: &'static [&'static str],
    title: &'static str,
    svgs: usize,
    /// Lower bounds; timings decide on a few.
    rows: usize,
    has: &'static [&'static str],
}

const SAMPLES: [Sample; 3] = [
    Sample {
        name: "hash.html",
        arguments: &["hash", "keys.txt", "--function", "xxh3", "--function", "fnv1a", "--no-speed"],
        title: "Hash functions on your keys",
        // Two plots and a matrix per function; a row of names, two functions, and the random model.
        svgs: 2 + 2,
        rows: 1 + 2 + 1,
        has: &["Avalanche", "<td>fnv1a</td>"],
    },
    Sample {
        name: "schemes.html",
        arguments: &["schemes", "keys.txt", "--points", "5"],
        title: "Access methods, fed with your keys",
        svgs: 11,
        rows: 1 + 12,
        has: &["<td>gdbm</td>", "Pages per hit, on disk", "Splits"],
    },
    Sample {
        name: "tune.html",
        arguments: &["tune", "pairs.tsv", "--time", "1"],
        title: "Settings for your pairs",
        svgs: 4,
        // Equation (1), caches of which some are too close to measure apart, functions.
        rows: 2 + (1 + 1) + (1 + HashKind::ALL.len()),
        has: &["TableOptions::new()", "get, ns a lookup", "<td>xxh3</td>"],
    },
];

/// A file name that would end a script, a cell and the page if it were not escaped.
const HOSTILE: &str = "</td></table><script>alert('&amp;')</script>";

#[test]
fn a_browser_shows_the_pages_whole() {
    let Some(browser) = browser() else {
        eprintln!("SKIPPED: the lab's pages in a browser, because Chromium is not installed");
        return;
    };
    let place = directory();
    let keys: String = (0..600).map(|number| format!("{HOSTILE}{number}\n")).collect();
    fs::write(place.path().join("keys.txt"), keys).unwrap();
    let pairs: String = (0..600).map(|number| format!("{HOSTILE}{number}\t{number}\n")).collect();
    fs::write(place.path().join("pairs.tsv"), pairs).unwrap();
    thread::scope(|scope| {
        for sample in &SAMPLES {
            scope.spawn(|| sample.check(&browser, place.path()));
        }
    });
}

impl Sample {
    fn check(&self, browser: &Path, place: &Path) {
        let name = self.name;
        run_well(place, &[&["lab"], self.arguments, &["--html", name]].concat());
        let dom = dom(browser, place, name);
        let count = |part: &str| dom.matches(part).count();
        assert_eq!(count(&format!("<title>{}</title>", self.title)), 1, "{name}: {dom}");
        assert_eq!(count(&format!("<h1>{}</h1>", self.title)), 1, "{name}: {dom}");
        assert_eq!(count("<svg"), self.svgs, "{name}: plots");
        assert_eq!(count("<figure"), self.svgs, "{name}: figures");
        assert!(count("<tr>") >= self.rows, "{name}: {} rows in {dom}", count("<tr>"));
        for part in self.has {
            assert!(dom.contains(part), "{name}: no {part} in {dom}");
        }
        for damage in ["<script", "Nothing to draw", "NaN", "parsererror"] {
            assert!(!dom.contains(damage), "{name}: {damage} in {dom}");
        }
    }
}

fn browser() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

/// The page's elements after rendering. A browser that does not answer is killed.
fn dom(browser: &Path, place: &Path, page: &str) -> String {
    let (dumped, said) = (place.join(format!("{page}.dom")), place.join(format!("{page}.said")));
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-extensions", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", place.join(format!("{page}.profile")).display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", place.join(page).display()))
        .env("HOME", place)
        .stdin(Stdio::null())
        .stdout(File::create(&dumped).unwrap())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{page}: the browser hung: {}", fs::read_to_string(&said).unwrap());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let dom = fs::read_to_string(&dumped).unwrap();
    assert!(dom.contains("</html>"), "{page}: the browser gave no page: {}", fs::read_to_string(&said).unwrap());
    dom
}

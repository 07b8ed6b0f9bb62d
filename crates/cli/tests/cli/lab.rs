//! The HTML pages of the lab, rendered by headless Chromium if it is installed.

use super::{directory, run_well};
use splitpoint::HashKind;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A page: the command that writes it, and its expected contents.
struct Sample {
    name: &'static str,
    arguments: &'static [&'static str],
    title: &'static str,
    svgs: usize,
    /// The minimum; a few rows depend on timings.
    rows: usize,
    has: &'static [&'static str],
}

const SAMPLES: [Sample; 3] = [
    Sample {
        name: "hash.html",
        arguments: &["hash", "keys.txt", "--function", "xxh3", "--function", "fnv1a", "--no-speed"],
        title: "Hash functions on your keys",
        // Two plots and one matrix for each function; a header, two functions, and the random model.
        svgs: 2 + 2,
        rows: 1 + 2 + 1,
        has: &["Avalanche", "<td>fnv1a</td>"],
    },
    Sample {
        name: "schemes.html",
        arguments: &["schemes", "keys.txt", "--points", "5"],
        title: "Access methods on your keys",
        svgs: 11,
        rows: 1 + 12,
        has: &["<td>gdbm</td>", "Pages per hit, on disk", "Splits"],
    },
    Sample {
        name: "tune.html",
        arguments: &["tune", "pairs.tsv", "--time", "1"],
        title: "Settings for your pairs",
        svgs: 4,
        // Equation (1); caches, of which small ones may be left out; functions.
        rows: 2 + (1 + 1) + (1 + HashKind::ALL.len()),
        has: &["TableOptions::new()", "get, ns a lookup", "<td>xxh3</td>"],
    },
];

/// Unescaped, this key would end a cell and start a script.
const HOSTILE: &str = "</td></table><script>alert('&amp;')</script>";

#[test]
fn a_browser_renders_the_pages_completely() {
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
        for fault in ["<script", "Nothing to draw", "NaN", "parsererror"] {
            assert!(!dom.contains(fault), "{name}: {fault} in {dom}");
        }
    }
}

fn browser() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

/// The DOM of the page after rendering. Kills a browser that hangs.
fn dom(browser: &Path, place: &Path, page: &str) -> String {
    let (dumped, stderr) = (place.join(format!("{page}.dom")), place.join(format!("{page}.said")));
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-extensions", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", place.join(format!("{page}.profile")).display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", place.join(page).display()))
        .env("HOME", place)
        .stdin(Stdio::null())
        .stdout(File::create(&dumped).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{page}: the browser hung: {}", fs::read_to_string(&stderr).unwrap());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let dom = fs::read_to_string(&dumped).unwrap();
    assert!(dom.contains("</html>"), "{page}: the browser wrote no page: {}", fs::read_to_string(&stderr).unwrap());
    dom
}

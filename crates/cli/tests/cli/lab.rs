//! The HTML pages of the lab in headless Chromium, if it is installed: at the width of a desktop and of a phone, in
//! light and in dark mode, and without scripts. Pictures of views with faults are kept in the tests' directory for
//! temporary files; with `SPLITPOINT_PICTURES=DIR`, pictures of all views are kept there.

use super::browser::{self, Browser, View};
use super::{directory, run_well};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A page: the command that writes it, and its expected contents.
struct Sample {
    name: &'static str,
    arguments: &'static [&'static str],
    title: &'static str,
    plots: usize,
    has: &'static [&'static str],
}

const SAMPLES: [Sample; 4] = [
    Sample {
        name: "hash.html",
        arguments: &["hash", KEYS],
        title: "Hash functions on your keys",
        plots: 3,
        has: &["Avalanche", "fnv1a", "uniform random", "Use "],
    },
    Sample {
        name: "schemes.html",
        arguments: &["schemes", KEYS, "--points", "5"],
        title: "Access methods on your keys",
        plots: 10,
        has: &["gdbm", "Pages per successful lookup, on disk", "Splits"],
    },
    Sample {
        name: "tune.html",
        arguments: &["tune", "pairs.tsv", "--time", "1"],
        title: "Settings for your pairs",
        plots: 0,
        has: &["TableOptions::new()", "get, ns a lookup", "xxh3", "Equation (1)"],
    },
    Sample {
        name: "kernel.html",
        arguments: &["kernel", "tree", "--runs", "1", "--scripts", "1"],
        title: "Hash tables of Linux 2.2.5",
        plots: 5,
        has: &["Table 1: page cache: hash functions", "hash_64 old", "Histogram 5", "reference"],
    },
];

/// The names of the input and of the keys; unescaped, each would start a script.
const KEYS: &str = "<img src=x onerror=hacked=1>.txt";
const HOSTILE: &str = "</td></table></script><script>hacked='&amp;\"'</script><img src=x onerror=hacked=1>";

/// The width of a desktop and of a phone.
const WIDTHS: [u32; 2] = [1280, 390];
const SMALLEST_TEXT: f64 = 11.0;
/// Contrast of text with its background: WCAG 2.2, level AA.
const CONTRAST_MIN: f64 = 4.5;

#[test]
fn a_browser_shows_the_pages_of_the_lab() {
    let Some(program) = browser::installed() else {
        eprintln!("SKIPPED: the lab's pages in a browser, because Chromium is not installed");
        return;
    };
    let place = directory();
    write_inputs(place.path());
    let mut browser = Browser::start(&program, place.path());
    let mut faults = Vec::new();
    for sample in &SAMPLES {
        run_well(place.path(), &[&["lab"], sample.arguments, &["--html", sample.name]].concat());
        for width in WIDTHS {
            for (is_dark, has_scripts) in [(false, true), (true, true), (true, false)] {
                let view = View { width, is_dark, has_scripts };
                faults.extend(sample.faults(&mut browser, place.path(), view));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn write_inputs(place: &Path) {
    let keys = (0..600).flat_map(|number| [HOSTILE.as_bytes(), b"\xff", format!("{number}\n").as_bytes()].concat());
    fs::write(place.join(KEYS), keys.collect::<Vec<u8>>()).unwrap();
    let pairs: String = (0..600).map(|number| format!("{HOSTILE}{number}\t{number}\n")).collect();
    fs::write(place.join("pairs.tsv"), pairs).unwrap();
    fs::create_dir(place.join("tree")).unwrap();
    (0..20).for_each(|number| fs::write(place.join(format!("tree/{number}.c")), "text").unwrap());
}

impl Sample {
    /// Returns the faults of the page in this view.
    fn faults(&self, browser: &mut Browser, place: &Path, view: View) -> Vec<String> {
        let page = place.join(self.name);
        browser.open(&page, view);
        let seen = browser.evaluate(MEASURE);
        let mut faults = self.faults_of(&seen, view);
        if view.has_scripts && self.plots > 0 {
            faults.extend(faults_of_plots(browser));
        }
        faults.extend(browser.complaints(&page));
        let scheme = if view.is_dark { "dark" } else { "light" };
        let scripts = if view.has_scripts { "" } else { "-without-scripts" };
        let name = format!("{}-{}-{scheme}{scripts}.png", self.name.trim_end_matches(".html"), view.width);
        let wanted = std::env::var_os("SPLITPOINT_PICTURES").map(PathBuf::from);
        let folder = wanted.or_else(|| (!faults.is_empty()).then(|| env!("CARGO_TARGET_TMPDIR").into()));
        let Some(folder) = folder else { return faults };
        let picture = folder.join(&name);
        fs::write(&picture, browser.picture()).unwrap();
        faults.iter().map(|fault| format!("{name}: {fault} (see {})", picture.display())).collect()
    }

    fn faults_of(&self, seen: &Value, view: View) -> Vec<String> {
        let mut faults = Vec::new();
        let mut expect = |is_so: bool, fault: String| {
            if !is_so {
                faults.push(fault);
            }
        };
        let number = |name: &str| seen[name].as_f64().unwrap_or(f64::NAN);
        expect(seen["title"] == self.title, format!("its title is {}", seen["title"]));
        expect(number("beyond") <= 0.0, format!("it is {} pixels too wide", seen["beyond"]));
        expect(number("smallest") >= SMALLEST_TEXT, format!("text of {} pixels: {}", seen["smallest"], seen["least"]));
        expect(number("contrast") >= CONTRAST_MIN, format!("contrast of {}: {}", seen["contrast"], seen["faintest"]));
        expect(seen["hacked"] == false, "a key ran a script".to_owned());
        expect(seen["unreached"] == 0, format!("{} tables whose last column cannot be reached", seen["unreached"]));
        expect(number("answer") < 600.0, format!("the answer begins at {} pixels", seen["answer"]));
        let tables = number("tables");
        expect(tables >= self.plots as f64 + 1.0, format!("{tables} tables for {} plots", self.plots));
        let drawn = if view.has_scripts { "canvases" } else { "svgs" };
        expect(number(drawn) == self.plots as f64, format!("{} {drawn} of {} plots", seen[drawn], self.plots));
        let text = seen["text"].as_str().unwrap_or_default();
        for part in self.has {
            expect(text.contains(part), format!("no {part}"));
        }
        for fault in ["Nothing to draw", "NaN", "undefined", "Infinity"] {
            expect(!text.contains(fault), format!("it says {fault}"));
        }
        faults
    }
}

/// What a reader sees, from the outside.
const MEASURE: &str = r#"(() => {
  const root = document.documentElement;
  const visible = element => element.getClientRects().length > 0 && getComputedStyle(element).visibility === "visible";
  const channels = color => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const behind = element => {
    for (let above = element; above; above = above.parentElement) {
      const color = channels(getComputedStyle(above).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  let [smallest, least, contrast, faintest] = [Infinity, "", Infinity, ""];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), element = texts.currentNode.parentElement;
    if (!text || !visible(element) || element.closest("script")) continue;
    const style = getComputedStyle(element), svg = element.closest("svg");
    const scale = svg ? Math.hypot(element.getScreenCTM().a, element.getScreenCTM().b) : 1;
    const size = parseFloat(style.fontSize) * scale;
    if (size < smallest) [smallest, least] = [size, text];
    if (svg) continue;
    const [a, b] = [light(channels(style.color)), light(behind(element))].sort((a, b) => b - a);
    const ratio = (a + .05) / (b + .05);
    if (ratio < contrast) [contrast, faintest] = [ratio, text];
  }
  let unreached = 0;
  for (const box of document.querySelectorAll(".wide")) {
    const cell = box.querySelector("tr")?.lastElementChild;
    if (!cell || !visible(box)) continue;
    box.scrollLeft = box.scrollWidth;
    if (cell.getBoundingClientRect().right > box.getBoundingClientRect().right + 1) unreached++;
    box.scrollLeft = 0;
  }
  const inked = canvas => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let inked = 0;
    for (let i = 3; i < pixels.length; i += 4) inked += pixels[i] > 0;
    return inked > pixels.length / 4 / 500;
  };
  return {
    title: document.title === document.querySelector("h1")?.textContent ? document.title : "not the heading",
    beyond: root.scrollWidth - root.clientWidth, smallest, least, contrast, faintest, unreached,
    answer: document.querySelector(".answer").getBoundingClientRect().top,
    tables: document.querySelectorAll("table").length,
    canvases: [...document.querySelectorAll("[data-plot] canvas")].filter(inked).length,
    svgs: [...document.querySelectorAll("[data-plot] svg")].filter(visible).length,
    hacked: typeof hacked !== "undefined", 
    text: [...document.body.children].filter(part => part.localName !== "script")
      .map(part => part.textContent).join(" "),
  };
})()"#;

/// Returns the faults of the first plot: under the pointer and the arrow keys, and with its first line off or alone.
fn faults_of_plots(browser: &mut Browser) -> Vec<String> {
    let mut faults = Vec::new();
    let place = browser.evaluate(
        r#"(() => {
          const plot = document.querySelector("[data-plot]");
          plot.scrollIntoView({ block: "center" });
          const { left, top, width, height } = plot.querySelector(".u-over").getBoundingClientRect();
          return [left + width / 2, top + height / 2];
        })()"#,
    );
    browser.point(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    let tip = |browser: &mut Browser| {
        let tip = browser.evaluate(
            r#"(() => {
              const tip = document.querySelector("[data-plot] .tip");
              const { left, right } = tip.getBoundingClientRect();
              const fits = left >= 0 && right <= document.documentElement.clientWidth;
              return tip.hidden ? "hidden" : fits ? tip.innerText : "beyond the window";
            })()"#,
        );
        tip.as_str().unwrap_or_default().to_owned()
    };
    let shown = tip(browser);
    if !shown.chars().any(|character| character.is_ascii_digit()) {
        faults.push(format!("the pointer shows no values: {shown}"));
    }
    browser.point(1.0, 1.0);
    if tip(browser) != "hidden" {
        faults.push("values stay when the pointer is gone".to_owned());
    }
    browser.evaluate(r#"document.querySelector("[data-plot]").focus()"#);
    browser.press("ArrowRight");
    let shown = tip(browser);
    if !shown.chars().any(|character| character.is_ascii_digit()) {
        faults.push(format!("an arrow key shows no values: {shown}"));
    }
    browser.evaluate("document.activeElement.blur()");
    let button = browser.evaluate(
        r#"(() => {
          const button = document.querySelector("[data-keys] button");
          button.scrollIntoView({ block: "center" });
          const { left, top, width, height } = button.getBoundingClientRect();
          return [left + width / 2, top + height / 2];
        })()"#,
    );
    let (x, y) = (button[0].as_f64().unwrap(), button[1].as_f64().unwrap());
    const STATE: &str = r#"(() => {
      const plot = document.querySelector("[data-plot]").plot, button = document.querySelector("[data-keys] button");
      const line = plot.series.find(series => series.label === button.value);
      return [line.show, button.getAttribute("aria-pressed") === "true", plot.ctx.canvas.toDataURL()];
    })()"#;
    let before = browser.evaluate(STATE);
    browser.click(x, y);
    let without = browser.evaluate(STATE);
    browser.click(x, y);
    let after = browser.evaluate(STATE);
    if (&before[0], &before[1]) != (&true.into(), &true.into()) {
        faults.push("a line is hidden from the beginning".to_owned());
    }
    if (&without[0], &without[1]) != (&false.into(), &false.into()) || without[2] == before[2] {
        faults.push("a click on its name does not hide a line".to_owned());
    }
    if after[0] != true || after[2] == without[2] {
        faults.push("a second click does not show the line again".to_owned());
    }
    let colors = browser.evaluate(
        r#"(() => {
          const canvas = document.querySelector("[data-plot] canvas"), light = canvas.toDataURL();
          document.querySelector(".theme").click();
          return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
            const other = canvas.toDataURL() !== light;
            document.querySelector(".theme").click();
            done(other);
          })));
        })()"#,
    );
    if colors != true {
        faults.push("a plot keeps its colors in the other mode".to_owned());
    }
    browser.settle();
    faults
}

/// Invalid functions, and the message about each; the first is valid.
const FUNCTIONS: &str = "
#include <stddef.h>
#include <stdint.h>
#include <string.h>
static uint64_t fnv(const unsigned char *at, size_t bytes) {
    uint64_t hash = 14695981039346656037u;
    while (bytes--) hash = (hash ^ *at++) * 1099511628211u;
    return hash;
}
uint64_t good(const void *key, size_t bytes) { return fnv(key, bytes); }
uint64_t past(const void *key, size_t bytes) { return fnv(key, bytes + 1); }
uint64_t before(const void *key, size_t bytes) { return fnv((const unsigned char *)key - 1, bytes + 1); }
uint64_t words(const void *key, size_t bytes) { return fnv(key, (bytes + 7) / 8 * 8); }
uint64_t address(const void *key, size_t bytes) { return fnv((const unsigned char *)&key, 8) + bytes; }
uint64_t calls(const void *key, size_t bytes) { static uint64_t count; return fnv(key, bytes) + count++; }
";

#[test]
fn a_function_of_more_than_the_key_is_refused_and_a_library_says_why_it_is_not_loaded() {
    let place = directory();
    let place = place.path();
    fs::write(place.join("functions.c"), FUNCTIONS).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o", "functions.so", "functions.c"])
        .current_dir(place)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: a user's function, because there is no C compiler (package gcc)");
        return;
    }
    let keys: String = (0..500).map(|number| format!("user:{number}\n")).collect();
    fs::write(place.join("keys.txt"), keys).unwrap();
    let hash = |function: &str| super::run(place, &["lab", "hash", "keys.txt", "--no-speed", "--function", function]);
    for path in ["functions.so", "./functions.so"] {
        assert!(hash(&format!("mine={path}:good")).status.success(), "{path}");
    }
    let outside = "the hash depends on bytes outside of the key";
    for (function, why) in [
        ("past", outside),
        ("before", outside),
        ("words", outside),
        ("address", "the hash depends on the address of the key"),
        ("calls", "a second call returns another hash"),
    ] {
        let output = hash(&format!("mine=functions.so:{function}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{function}: {said}");
        assert!(said.contains(&format!("--function mine: {why}, as that of \"user:")), "{function}: {said}");
    }
    for (function, why) in [
        ("absent.so:f", "absent.so: cannot open shared object file"),
        ("functions.c:f", "invalid ELF header"),
        ("functions.so:absent", "undefined symbol: absent"),
    ] {
        let said = String::from_utf8(hash(&format!("mine={function}")).stderr).unwrap();
        assert!(said.contains(why), "{function}: {said}");
    }
}

#[test]
fn pages_of_private_keys_are_private_and_their_folder_is_made() {
    use std::os::unix::fs::PermissionsExt;
    let place = directory();
    let place = place.path();
    let mode = |path: &str| fs::metadata(place.join(path)).unwrap().permissions().mode() & 0o777;
    let rows: String = (0..200).map(|number| format!("key{number}\t{number}\n")).collect();
    for (name, permissions, folder) in [("private.tsv", 0o600, 0o700), ("public.tsv", 0o644, 0o755)] {
        fs::write(place.join(name), &rows).unwrap();
        fs::set_permissions(place.join(name), fs::Permissions::from_mode(permissions)).unwrap();
        for command in [
            format!("lab hash {name} --no-speed --html {name}.new/hash/page.html --plots {name}.new/plots"),
            format!("lab schemes {name} --points 2 --scheme dbm --html {name}.new/schemes.html"),
            format!("lab tune {name} --time 1 --html {name}.new/tune.html"),
        ] {
            let umask = format!("umask 022; exec {} {command} < /dev/null", super::PROGRAM);
            let done = std::process::Command::new("sh").args(["-c", &umask]).current_dir(place).output().unwrap();
            assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        }
        for page in ["hash/page.html", "plots/load.svg", "schemes.html", "tune.html"] {
            assert_eq!(mode(&format!("{name}.new/{page}")), permissions, "{page}");
        }
        for made in ["", "/hash", "/plots"] {
            assert_eq!(mode(&format!("{name}.new{made}")), folder, "{made}");
        }
        // A file that a shell opened is private, too.
        let stdin = format!("exec {} lab hash - --no-speed --html stdin.html < {name}", super::PROGRAM);
        let done = std::process::Command::new("sh").args(["-c", &stdin]).current_dir(place).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(mode("stdin.html"), permissions);
        fs::remove_file(place.join("stdin.html")).unwrap();
    }
}

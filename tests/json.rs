//! Typed tables of serde types: `cargo test --features serde --test json`.

use serde::{Deserialize, Serialize};
use splitpoint::{ErrorKind, Json, Table};
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Circle { radius: f64 },
    Polygon(Vec<(i32, i32)>),
    Nothing,
}

#[test]
fn what_serde_serializes_is_stored_as_json_and_comes_back() {
    let table = Table::in_memory().unwrap();
    let shapes = table.typed::<str, Json<Shape>>().unwrap();
    let all = [
        ("circle", Shape::Circle { radius: 0.5 }, r#"{"Circle":{"radius":0.5}}"#),
        ("polygon", Shape::Polygon(vec![(1, -2), (3, 4)]), r#"{"Polygon":[[1,-2],[3,4]]}"#),
        ("nothing", Shape::Nothing, r#""Nothing""#),
    ];
    for (name, shape, json) in &all {
        shapes.put(name, &Json(shape.clone())).unwrap();
        assert_eq!(table.get(name.as_bytes()).unwrap().unwrap(), json.as_bytes());
        assert_eq!(shapes.get(name).unwrap(), Some(Json(shape.clone())));
        assert_eq!(shapes.get_with(name, |Json(found)| found == *shape).unwrap(), Some(true));
    }
    assert!(shapes.update("nothing", |old| old.map(|_| Json(Shape::Circle { radius: 1.0 }))).unwrap());
    assert_eq!(shapes.iter().count(), 3);
    // The name of Python's encoding, whose bytes are the same.
    assert_eq!(table.types(), "str -> json");
    assert_eq!(table.typed::<str, str>().err().unwrap().kind(), ErrorKind::WrongTypes);
}

#[test]
fn a_value_without_json_is_refused_and_changes_nothing() {
    type Wrong = Json<BTreeMap<(u8, u8), u8>>;
    let table = Table::in_memory().unwrap();
    let typed = table.typed::<u8, Wrong>().unwrap();
    let wrong: Wrong = Json(BTreeMap::from([((1, 2), 3)]));
    let right: Wrong = Json(BTreeMap::new());
    typed.put(&1, &right).unwrap();
    let errors = [
        typed.put(&1, &wrong).err(),
        typed.insert_new(&2, &wrong).err(),
        typed.replace(&1, &wrong).err(),
        typed.update(&1, |_| Some(wrong.clone())).err(),
        typed.update(&2, |_| Some(wrong.clone())).err(),
        typed.extend([(3, &right), (4, &wrong), (5, &right)]).err(),
        Table::in_memory()
            .unwrap()
            .typed::<(Wrong, u8), (u8, Wrong)>()
            .unwrap()
            .put(&(wrong.clone(), 1), &(1, right.clone()))
            .err(),
        Table::in_memory().unwrap().typed::<(u8, u8), (u8, Wrong)>().unwrap().put(&(1, 1), &(1, wrong)).err(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("not JSON: key must be a string"), "{error}");
    }
    assert_eq!(typed.get(&1).unwrap(), Some(right));
    assert_eq!((table.len(), typed.contains(&3).unwrap(), typed.contains(&5).unwrap()), (2, true, false));
}

#[test]
fn bytes_that_are_no_json_of_the_type_are_an_error() {
    let table = Table::in_memory().unwrap();
    let typed = table.typed::<str, Json<Shape>>().unwrap();
    for bytes in [&b""[..], b"{", b"7", br#"{"Circle":{}}"#, b"\"Nothing\" and more", &b"[".repeat(100_000)] {
        table.put(b"k", bytes).unwrap();
        let error = typed.get("k").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongTypes, "{error}");
    }
}

#[test]
fn equal_maps_are_one_key_whatever_the_order_of_their_members() {
    let table = Table::in_memory().unwrap();
    let counts = table.typed::<Json<Vec<HashMap<String, u128>>>, u32>().unwrap();
    // Each map has a hash seed of its own, so that the order of its members differs.
    let maps = || vec![(0..20).map(|n| (format!("{{{n}}}"), u128::MAX - n)).collect::<HashMap<_, _>>(); 2];
    for n in 0..50 {
        counts.put(&Json(maps()), &n).unwrap();
    }
    assert_eq!((table.len(), counts.get(&Json(maps())).unwrap()), (1, Some(49)));
    let (key, _) = counts.iter().next().unwrap().unwrap();
    assert_eq!(key.0, maps());
    // As Python writes them.
    counts.put(&Json(vec![HashMap::from([("b".to_owned(), 1), ("a".to_owned(), 2)])]), &1).unwrap();
    assert!(table.contains(br#"[{"a":2,"b":1}]"#).unwrap());
}

//! A dictionary that is updated in batches: each batch is merged with the old file into a new one, and a reader
//! switches to it when it reloads.

use splitpoint::{Dictionary, DictionaryBuilder};
use std::error::Error;

const PRODUCTS: u64 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?; // removed at the end
    let path = directory.path().join("prices.spd");
    let builder = DictionaryBuilder::new();
    let prices = (0..PRODUCTS).map(|n| (format!("product {n}"), format!("{}", n % 100)));
    println!("built: {} products", builder.build(&path, prices)?);

    let mut reader = Dictionary::open(&path)?;
    for batch in 1..=3 {
        let mut update = Dictionary::update(&path, &path, &builder)?;
        for n in (0..PRODUCTS).step_by(1000) {
            update.put(format!("product {n}").as_bytes(), format!("{} in batch {batch}", n % 100).as_bytes())?;
        }
        update.remove(format!("product {batch}").as_bytes())?;
        let pairs = update.finish()?;

        let before = price(&reader, 2000)?;
        let reloaded = reader.reload()?;
        println!("batch {batch}: {pairs} products; product 2000 was {before}, is {}", price(&reader, 2000)?);
        assert!(reloaded && pairs == PRODUCTS - batch && price(&reader, batch)? == "absent");
    }
    assert_eq!(price(&reader, 2000)?, "0 in batch 3");
    Ok(())
}

fn price(reader: &Dictionary, product: u64) -> splitpoint::Result<String> {
    let price = reader.get(format!("product {product}").as_bytes())?;
    Ok(price.map_or("absent".to_owned(), |price| String::from_utf8_lossy(&price).into_owned()))
}

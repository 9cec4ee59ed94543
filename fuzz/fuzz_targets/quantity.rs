//! Whatever is taken for a quantity prints to something that means the same, and prints the same again.
#![no_main]

use evictd_pod::Quantity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(quantity) = text.parse::<Quantity>() else {
        return;
    };
    let printed = quantity.to_string();
    let again: Quantity = printed.parse().expect("what we print we read");
    assert_eq!(again, quantity, "{text:?} prints {printed:?}");
    assert_eq!(again.to_string(), printed);
    // Rounding is away from zero, and never by a whole unit.
    let (value, nano) = (i128::from(quantity.value()), quantity.nano_value());
    assert!((value * 1_000_000_000 - nano).abs() < 1_000_000_000);
    let _ = (
        quantity + quantity,
        quantity - quantity,
        quantity.milli_value(),
    );
});

use super::*;
use crate::{scenario::Scenario, scene::Stage, simulated};
use clap::ValueEnum;
use jiff::Timestamp;

fn page(buffer: &Buffer) -> String {
    let rows = buffer.content.chunks(usize::from(buffer.area.width));
    let lines = rows.map(|row| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn frame(scene: &Scene, width: u16, height: u16) -> Buffer {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(scene, area, &mut buffer);
    buffer
}

/// The last scene of a scenario.
async fn last_scene(scenario: Scenario) -> Scene {
    let stage = Stage::new(scenario, Timestamp::UNIX_EPOCH);
    let calm = Duration::from_millis(300);
    simulated::play(&scenario.play(), &stage, calm)
        .await
        .unwrap();
    let mut scene = stage.scene().clone();
    scene.verdict = Some((true, "as expected".to_owned()));
    scene
}

#[tokio::test(start_paused = true)]
async fn every_play_fits_a_small_and_a_large_terminal() {
    for scenario in Scenario::value_variants() {
        let scene = last_scene(*scenario).await;
        for (width, height) in [(80, 23), (120, TALLEST), (LEAST.0, LEAST.1)] {
            let mut buffer = frame(&scene, width, height);
            without_colour(&mut buffer);
            let page = page(&buffer);
            let victim = scenario.play().expected.replace("demo/", "");
            for shown in [
                scenario.name(),
                scene.signal().as_str(),
                "▲",
                "✖ evicted",
                "● alive",
                "EVICTED",
                "SIG",
                "gone",
                "why demo/",
                "✔ as expected",
                &format!("1  {victim}"),
            ] {
                assert!(
                    page.contains(shown),
                    "{shown:?} at {width}x{height}:\n{page}"
                );
            }
            let spared = page.contains("◆ spared") && page.contains("spared: critical");
            assert_eq!(spared, *scenario == Scenario::Critical, "{page}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crossed_threshold_is_visible_without_colour() {
    let mut scene = last_scene(Scenario::Memory).await;
    assert!(!page(&frame(&scene, 80, 23)).contains("CROSSED"));
    let signal = &mut scene.signals[0];
    signal.available = 100 << 20;
    signal.marks[0].crossed_since = Some(Timestamp::UNIX_EPOCH);
    let page = page(&frame(&scene, 80, 23));
    assert!(page.contains("hard 160Mi CROSSED"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn no_size_is_too_small_or_too_large() {
    let empty = Stage::new(Scenario::Soft, Timestamp::UNIX_EPOCH);
    let last = last_scene(Scenario::Soft).await;
    let first = empty.scene().clone();
    for scene in [first, last] {
        for width in [0, 1, 9, 40, 79, 160] {
            for height in (0..45).step_by(4) {
                frame(&scene, width, height);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_svg_holds_every_word_and_no_stray_bracket() {
    let scene = last_scene(Scenario::Memory).await;
    let image = svg::of(&frame(&scene, 100, 30));
    for shown in ["160Mi", "evictd", "evicted", "expected"] {
        assert!(image.contains(shown), "{shown}");
    }
    assert_eq!(image.matches('<').count(), image.matches('>').count());
}

# What CI runs, step by step; each step's command is in .ci/run.

# every step, in CI's order
ci:
    .ci/run

# formatting is as rustfmt has it
fmt:
    .ci/run fmt

# lints, warnings denied
clippy:
    .ci/run clippy

# the API documentation builds without warnings
doc:
    .ci/run doc

# licences, duplicate crates, where crates come from
deny:
    .ci/run deny

# every test; installs what they need when root
test:
    .ci/run test

# the image, as an OCI archive
image:
    .ci/run image

# the package on machines of its own, from installation to purge
vm:
    .ci/run vm

# every bench, once
bench:
    .ci/run bench

# every fuzz target for a few seconds
fuzz:
    .ci/run fuzz

# what is made from the code: dashboards, rules and JSON Schemas, and the figures of docs/scale.md
generate:
    EVICTD_WRITE=1 cargo test --test monitoring --test schema --test run_daemon -- made scale

# watch a real eviction
demo *ARGS:
    cargo run --release -- demo {{ ARGS }}

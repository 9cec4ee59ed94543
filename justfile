# What is done in a week of work here; `just` lists it. CI's own steps are in .ci/run: `just ci fmt clippy` runs two of them.

[private]
default:
    @{{ just_executable() }} --list --unsorted

# watch a real eviction (as root; else it is simulated)
demo *ARGS:
    cargo run -- demo {{ ARGS }}

# what CI runs, or only these steps
ci *STEPS:
    .ci/run {{ STEPS }}

# before a commit: formatting, lints, the rules of the house
check:
    .ci/run fmt clippy
    cargo test --workspace --locked --test house

# every test, or those of which the name contains this: just test soft_victim
test *NAME:
    tests/run {{ NAME }}

# properties with new seeds, for so many minutes; what fails is kept as a regression
properties MINUTES="60":
    tests/properties {{ MINUTES }}

# one test program, and of it what the name contains: just one evictd soft
one PROGRAM *NAME:
    cargo test --workspace --locked --test {{ PROGRAM }} {{ NAME }}

# one bench, measured: just bench evictd-eviction rank
bench PACKAGE NAME *ARGS:
    cargo bench --locked -p {{ PACKAGE }} --bench {{ NAME }} -- {{ ARGS }}

# one fuzz target, for so many seconds
fuzz TARGET SECONDS="60":
    fuzz/run.sh {{ SECONDS }} {{ TARGET }}

# scenarios in virtual machines: just vm hog; all without a name
vm *SCENARIOS:
    tests/vm/run {{ SCENARIOS }}

# kernels, systemd, containerd, cgroups and packages, a row each in docs/matrix.md: just matrix trixie-v2; all without a name
matrix *ROWS:
    tests/vm/matrix {{ ROWS }}

# what README and docs quote, measured into docs/figures.md: just figures session; all without a name, which takes hours
figures *SECTIONS:
    tests/figures {{ SECTIONS }}

# what `-o html` writes, looked at in a headless Chromium; its pictures are in target/pages
pages:
    tests/pages/run

# what is generated: dashboards, rules, JSON Schemas, and in docs/ the page scale.md and the examples of explain.md, one-eviction.md and README.md
generate:
    EVICTD_WRITE=1 cargo test --test evictd -- monitoring:: schema:: alone::scale the_page_on_
    EVICTD_WRITE=1 cargo test -p evictd-scheduler --test scheduler -- documents::the_front_page

# what people install, in target/packages: deb, rpm, tarball, krew, static
package *WHAT:
    packaging/build {{ WHAT }}

# the library crates as a registry would have them: just crates verify compiles each from its package
crates *WHAT:
    packaging/crates {{ WHAT }}

# the interfaces of the library crates beside those of the last tag
semver:
    packaging/crates semver

# everything that a release consists of, and what a person still has to do
release:
    packaging/release

# the pages of docs/ as a website, in target/book
book:
    PATH=$(.ci/tool mdbook 0.4.52 --no-default-features):$PATH mdbook build docs

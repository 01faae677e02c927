# What a person types.  The build itself is CMake's: CMakePresets.json names its variants.
.PHONY: build demo test fuzz check reference clean
.DEFAULT_GOAL := build

SECONDS ?= 60
FUZZERS = $(notdir $(basename $(wildcard tests/fuzz/fuzz_*.c)))
PRESET = cmake --preset $(1) >/dev/null && ninja -C build/$(1) --quiet

deps:
	@tools/deps
.PHONY: deps

build: deps
	$(call PRESET,release)

demo: build
	tools/demo

# Unit tests of the layers in which threads meet.
THREADED = ^(env|rpc|transport|client)_

# With sanitizers first, then all labels (unit, model, golden, fuzz, sim, integration).
test: deps
	$(call PRESET,asan)
	$(call PRESET,tsan)
	$(call PRESET,debug)
	ctest --test-dir build/asan --output-on-failure -LE integration
	ctest --test-dir build/tsan --output-on-failure -R '$(THREADED)'
	ctest --test-dir build/debug --output-on-failure

# New inputs are kept under build/fuzz/corpus; add those that found a bug to tests/fuzz/corpus.
fuzz: deps
	$(call PRESET,fuzz)
	@for target in $(FUZZERS); do \
	    mkdir -p build/fuzz/corpus/$$target; \
	    echo "$$target: $(SECONDS) s"; \
	    build/fuzz/tests/$$target -max_total_time=$(SECONDS) -verbosity=0 \
	        -artifact_prefix=build/fuzz/$$target- build/fuzz/corpus/$$target \
	        tests/fuzz/corpus/$$target >build/fuzz/$$target.log 2>&1 || \
	        { tail -n 40 build/fuzz/$$target.log; exit 1; }; \
	done

check: deps
	tools/check

reference:
	tools/reference

clean:
	rm -rf build

# ninja decides by itself how much runs at once; the job server of `make -j` is closed to it.
unexport MAKEFLAGS

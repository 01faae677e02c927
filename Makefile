# What a person types.  The build itself is CMake's: CMakePresets.json names its variants.
.PHONY: build deps demo test test-consumers wheels fuzz check reference clean
.DEFAULT_GOAL := build

SECONDS ?= 60

deps:
	@tools/deps

build: deps
	@tools/build release

demo: build
	@tools/demo

test: deps
	@tools/test

test-consumers: deps
	@tools/consumers

wheels: deps
	@tools/wheel
	@tools/wheel mooncake
	@mkdir -p dist && rm -f dist/snowskin*.whl && cp build/wheels/snowskin*.whl dist/ && ls dist

fuzz: deps
	@tools/fuzz $(SECONDS)

check: deps
	@tools/check

reference:
	@tools/reference

clean:
	rm -rf build

# ninja decides by itself how much runs at once; the job server of `make -j` is closed to it.
unexport MAKEFLAGS

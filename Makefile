# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The dyno authors
#
# Thin: what is done, and how, is in scripts/. `make help` lists the targets.

# any: the machine's own Erlang/OTP of 27 or later, else 29 is brought. Or 27, or 29.
OTP ?= any
RESULTS ?= dyno-results

.PHONY: all install demo rabbitmq test check bench format clean help

all:
	@scripts/build $(OTP)

# Into PREFIX (/usr/local): bin/dyno, lib/dyno, the man page, completion for bash, zsh and fish.
PREFIX ?= /usr/local
export PREFIX
install: all
	@scripts/build $(OTP) install

demo: all
	@mkdir -p $(RESULTS)
	@./dyno test examples/http_demo.erl -o $(RESULTS)/http.json -o $(RESULTS)/http.html; \
	status=$$?; \
	if [ -f $(RESULTS)/http.html ]; then \
	    echo "The report: file://$(abspath $(RESULTS)/http.html)"; \
	fi; \
	echo "A system to look into while it runs: ./dyno demo"; \
	exit $$status

# doc/rabbitmq.md. QUEUES=quorum for the other kind; ARGS="--sizes 1,10" for options of dyno test.
QUEUES ?= classic
ARGS ?= --repeat 3 --without control
rabbitmq: all
	@mkdir -p $(RESULTS)
	@DYNO_RABBITMQ=$$(scripts/otp package $(OTP) rabbitmq-server) || exit; \
	export DYNO_RABBITMQ DYNO_RABBITMQ_QUEUES=$(QUEUES); \
	./dyno test examples/rabbitmq_demo.erl -o $(RESULTS)/rabbitmq-$(QUEUES).json \
	    -o $(RESULTS)/rabbitmq-$(QUEUES).html $(ARGS)

# `make test OTP=27` tests with that release only, `make test SUITE=dyno_clock` one suite on 29.
test:
	@scripts/test $(if $(SUITE),--suite $(SUITE) )$(if $(filter any,$(OTP)),$(if $(SUITE),29,27 29),$(OTP))

check:
	@scripts/check $(if $(filter any,$(OTP)),29,$(OTP))

# Figures of the machine that it runs on: doc/measurements.md.
bench:
	@scripts/bench $(OTP)

# doc/options.md and the tasks of Mix from the commands.
format: all
	@scripts/otp run $(OTP) escript scripts/written.escript write \
	    $$(ls -td _build/*/default/lib/dyno/ebin _build/default/lib/dyno/ebin 2>/dev/null | head -1)

# What was brought (.otp) and what was measured (dyno-results) stays.
clean:
	rm -rf _build dyno priv/nif-* priv/cpu ui/node_modules

help:
	@echo 'make          the C parts, the report page and the program ./dyno'
	@echo 'make install  put it into PREFIX, which is /usr/local'
	@echo 'make demo     load and measure Cowboy, and write a report to $(RESULTS)/'
	@echo 'make rabbitmq load and measure a RabbitMQ broker, brought privately'
	@echo 'make test     all tests, on OTP 27 and on OTP 29'
	@echo 'make check    warnings, xref, dialyzer, tests and their coverage, on OTP 29'
	@echo 'make bench    what dyno itself costs, measured on this machine'
	@echo 'make format   write doc/options.md, the schema of recordings and the tasks of Mix'
	@echo 'make clean    remove what was built'
	@echo
	@echo 'OTP=27 or OTP=29 chooses a release. It is brought into .otp where the machine lacks it.'

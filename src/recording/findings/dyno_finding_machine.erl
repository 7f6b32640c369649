%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_finding_machine).
-moduledoc """
Finds the share of the processors of dyno's machine that other programs took during a test: neither
its targets nor its load. Pure.

It is a lower bound: only time outside the kernel counts. The kernel's work for packets is no
program's, and took a fifth of two processors in a test over the loopback.
""".

-export([findings/1, others/1, is_beyond/1]).

-import(dyno_recording_part, [text/2]).

-doc "A doubt about the size with the largest share, if it is noticeable.".
-spec findings(dyno_recording:document()) -> [dyno_finding:t()].
findings(Document) ->
    Others = others(Document),
    Worst = lists:max([{0.0, none} | [{Share, Size} || Size := Share <- Others]]),
    [
        dyno_finding:new(others_busy, others_busy, #{
            severity => doubt,
            subject => ~"processors",
            value => Share,
            text => text("other programs took at least ~ts of the machine's processors ~ts", [
                dyno_unit:format(Share, ~"ratio"),
                dyno_sizes_words:with(Size, dyno_sizes_words:label(Document))
            ]),
            advice => <<
                "All times may be longer for that. End them, or test on a machine of its own; a "
                "part of the system that is not named as a target counts, too."
            >>
        })
     || {Share, Size} <- [Worst], is_beyond(Share)
    ].

-doc "Whether other programs change results noticeably if they take this share.".
-spec is_beyond(number()) -> boolean().
is_beyond(Share) -> Share > dyno_finding_limits:value(others_busy).

-doc "By size, if the load is dyno's and a target runs on dyno's machine.".
-spec others(dyno_recording:document()) -> #{Size :: number() => Share :: float()}.
others(#{~"environment" := #{~"cores" := Cores, ~"hostname" := Host}} = Document) when
    is_integer(Cores), is_binary(Host)
->
    Sizes = dyno_sizes:runs(Document),
    Roles = lists:uniq([
        Role
     || {_, Runs} <- Sizes,
        #{~"nodes" := Nodes} <- Runs,
        #{~"role" := Role, ~"name" := Name} <- Nodes,
        [_, At] <- [binary:split(Name, ~"@")],
        lists:member(first(At), [first(Host), ~"localhost", ~"127"])
    ]),
    Busy = [
        Of
     || Role <- lists:sublist(Roles, 1),
        Of <- dyno_sizes:means([~"os.cpu.user"], Role, Sizes)
    ],
    Known = [maps:from_list(dyno_sizes:of_metric(~"generator.cpu", Sizes))] ++
        [maps:from_list(dyno_sizes:means([~"os.vm.cpu"], Role, Sizes)) || Role <- Roles],
    #{
        Size => max(0.0, Share - lists:sum([map_get(Size, Of) || Of <- Known]) / Cores)
     || {Size, Share} <- Busy, lists:all(fun(Of) -> is_map_key(Size, Of) end, Known)
    };
others(_Document) ->
    #{}.

first(Host) -> hd(binary:split(Host, ~".")).

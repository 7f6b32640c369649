%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_cli_servers_view).
-moduledoc false.
%% The live table of `dyno servers` as lines of text: its rows, order, and commands. Pure.

-export([new/1, with_event/2, with_input/2, screen/3, lines/2]).
%% Single messages
-export([call/1, alarm/1, shown/1, calls/2]).
-export_type([view/0]).

-opaque view() :: #{
    sort := dyno_servers_row:key(),
    filter := unicode:chardata(),
    group := dyno_servers_window:group(),
    window := dyno_servers_window:window() | none,
    frozen := boolean(),
    lost := #{node() => dyno_error:error()},
    %% The latest alarms, the last one first.
    alarms := [binary()],
    %% Single messages: the number shown, the limit, and callbacks meanwhile.
    shown := non_neg_integer(),
    most := pos_integer(),
    ran := non_neg_integer(),
    said := unicode:chardata()
}.

%% Of a window in a pipe.
-define(LINES, 5).
-define(MOST_ALARMS, 3).
%% Of a message.
-define(MOST_CHARACTERS, 200).
-define(SAY, "s KEY sorts, g GROUP sums, /TEXT filters, f freezes, q quits").

-spec new(dyno_cli_command:values()) -> view().
new(Values) ->
    #{
        sort => maps:get(sort, Values, busy),
        filter => maps:get(filter, Values, ~""),
        group => maps:get(group, Values, process),
        window => none,
        frozen => false,
        lost => #{},
        alarms => [],
        shown => 0,
        most => maps:get(each, Values, 1),
        ran => 0,
        said => ?SAY
    }.

-spec with_event(dyno_servers_run:event(), view()) -> view().
with_event({window, _}, #{frozen := true} = View) ->
    View;
with_event({window, #{servers := Servers} = Window}, #{ran := Before} = View) ->
    Ran = [N || #{callbacks := Callbacks} <- Servers, #{count := N} <- Callbacks],
    View#{window := Window, ran := Before + lists:sum(Ran)};
with_event({lost, Node, Error}, #{lost := Lost} = View) ->
    View#{lost := Lost#{Node => Error}};
with_event({back, Node}, #{lost := Lost} = View) ->
    View#{lost := maps:remove(Node, Lost)};
with_event({alarm, _, Text}, #{alarms := Before} = View) ->
    View#{alarms := lists:sublist([Text | Before], ?MOST_ALARMS)};
with_event({each, _}, #{shown := Shown} = View) ->
    View#{shown := Shown + 1}.

-spec with_input(string(), view()) -> view().
with_input(Text, View) ->
    command(string:lexemes(Text, " "), Text, View#{said := ?SAY}).

command(["f"], _, #{frozen := true} = View) ->
    View#{frozen := false};
command(["f"], _, View) ->
    View#{frozen := true, said := ["frozen; f goes on"]};
command(["s", Name], _, View) ->
    chosen("s", sort, Name, dyno_servers_row:keys(), View);
command(["g", Name], _, View) ->
    chosen("g", group, Name, dyno_servers_window:groups(), View);
command([], _, View) ->
    View;
command(_, [$/ | Filter], View) ->
    View#{filter := Filter};
command(_, _, View) ->
    View.

chosen(Command, What, Name, Atoms, View) ->
    case [Atom || Atom <- Atoms, atom_to_list(Atom) =:= Name] of
        [Atom] -> View#{What := Atom};
        [] -> View#{said := [Command, " takes ", lists:join(", ", [atom_to_list(A) || A <- Atoms])]}
    end.

-spec screen(view(), dyno_report_table:layout(), Rows :: pos_integer()) -> [iodata(), ...].
screen(#{window := none, said := Said, lost := Lost}, _Layout, _Rows) ->
    clean([prompt(Said) | lost(Lost)]) ++ ["waiting for the first reading"];
screen(#{window := Window, said := Said} = View, #{width := Width} = Layout, Rows) ->
    #{lost := Lost, alarms := Alarms} = View,
    #{servers := Servers, duration_ns := DurationNs} = Window,
    Head = lost(Lost) ++ lists:reverse(Alarms) ++ heading(View, Width),
    Chosen = rows(View),
    Drawn = dyno_servers_pipeline:draw(dyno_servers_pipeline:stages(Servers, DurationNs)),
    Pipeline = [~"" || Drawn =/= []] ++ Drawn,
    Room = max(3, Rows - length(Head) - 3 - length(Pipeline)),
    Hidden = length(Chosen) - Room,
    clean([prompt(Said) | Head]) ++ table(lists:sublist(Chosen, Room), View, Layout) ++
        [dyno_recording_part:text("... ~b more", [Hidden]) || Hidden > 0] ++ clean(Pipeline).

clean(Lines) -> [dyno_text:clean(dyno_report_text:encode(Line)) || Line <- Lines].

prompt(Said) -> [dyno_report_text:encode(Said), " > "].

lost(Lost) ->
    [
        dyno_report_text:encode([atom_to_binary(Node), ": ", dyno_error:format(Error)])
     || Node := Error <- Lost
    ].

heading(#{window := #{nodes := Nodes, servers := Servers, start_ns := Ns}} = View, Width) ->
    #{sort := Sort, filter := Filter, frozen := Frozen} = View,
    Time = calendar:system_time_to_rfc3339(Ns div 1_000_000_000, [{offset, "Z"}]),
    Facts =
        [
            list_to_binary(Time),
            dyno_recording_part:text("~b servers", [length(Servers)]),
            <<"by ", (atom_to_binary(Sort))/binary>>
        ] ++
            [dyno_recording_part:text("only ~ts", [Filter]) || not string:is_empty(Filter)] ++
            [~"frozen" || Frozen],
    dyno_report_text:wrap_parts(Facts, ~",", Width) ++
        lists:append([
            dyno_report_text:wrap(
                dyno_recording_part:text("~ts: ~ts; all gen_servers of the node: ~ts", [
                    Node,
                    dyno_servers_recording:level(OfNode),
                    dyno_unit:format(dyno_servers_recording:callback_rate(OfNode), ~"1/s")
                ]),
                Width
            )
         || #{node := Node} = OfNode <- Nodes
        ]).

rows(#{window := #{duration_ns := Ns} = Window, group := Group, filter := Filter, sort := Sort}) ->
    Rows = [
        named(Group, dyno_servers_row:row(Sum, Ns))
     || Sum <- dyno_servers_window:sums(Group, Window)
    ],
    dyno_servers_row:ranked(Sort, [Row || Row <- Rows, dyno_servers_row:is_like(Filter, Row)]).

named(process, Row) -> Row;
named(Group, Row) -> Row#{name => maps:get(Group, Row, ~"none")}.

table([], #{filter := Filter}, _Layout) when Filter =/= [], Filter =/= ~"" ->
    [~"none has that in its name, module, application or supervisor; / shows all"];
table([], _View, _Layout) ->
    [~"no server that is selected runs"];
table(Rows, #{group := Group}, Layout) ->
    Columns = columns(Group),
    dyno_report_table:lines(
        [#{title => Title, align => Align, fit => Fit} || {Title, Align, Fit, _} <- Columns],
        [[Cell(Row) || {_, _, _, Cell} <- Columns] || Row <- Rows],
        Layout
    ).

columns(Group) ->
    Number = fun(Title, Key, Unit, Fit) ->
        {Title, right, Fit, fun(Row) -> number(maps:get(Key, Row, undefined), Unit) end}
    end,
    [
        {maps:get(Group, #{process => ~"server"}, atom_to_binary(Group)), left, flexible, fun(
            #{name := Name}
        ) ->
            Name
        end},
        Number(~"rate", rate, ~"1/s", fixed),
        {~"busy", right, fixed, fun
            (#{busy := Busy}) when is_number(Busy), Busy >= 0.9 -> {bad, number(Busy, ~"ratio")};
            (#{busy := Busy}) -> number(Busy, ~"ratio")
        end},
        Number(~"p50", p50, ~"ns", fixed),
        Number(~"p99", p99, ~"ns", fixed),
        Number(~"queue", queue_now, ~"count", fixed),
        Number(~"waited", waited_p99, ~"ns", optional),
        {~"now in", left, optional, fun
            (#{running := <<Running/binary>>}) -> Running;
            (_) -> ~""
        end},
        Number(~"max", max, ~"ns", optional),
        Number(~"cpu", cpu, ~"ratio", optional),
        {~"failed", right, optional, fun
            (#{exceptions := N, crashes := M}) when is_integer(N), N > M ->
                {bad, number(N, ~"count")};
            (#{crashes := M}) when M > 0 ->
                {bad, number(M, ~"count")};
            (_) ->
                ~""
        end},
        {~"pid", left, optional, fun(Row) -> maps:get(pid, Row, ~"") end},
        {~"node", left, optional, fun(Row) -> maps:get(node, Row, ~"") end},
        Number(~"words", words_mean, ~"words", optional)
    ].

number(undefined, _Unit) ->
    ~"-";
number({Ns, _, undefined}, Unit) when is_number(Ns) -> <<"> ", (number(Ns, Unit))/binary>>;
number({undefined, _, High}, Unit) when is_number(High) -> <<"< ", (number(High, Unit))/binary>>;
number({undefined, Low, _}, Unit) when is_number(Low), Low > 0 ->
    <<"> ", (number(Low, Unit))/binary>>;
number({Ns, _, _}, Unit) ->
    number(Ns, Unit);
number(Value, ~"ratio") ->
    dyno_unit:format(round(Value * 1000) / 1000, ~"ratio");
number(Value, Unit) ->
    dyno_unit:format(Value, Unit).

-doc "A line for each of the busiest servers of a window: name and then values, for programs.".
-spec lines(dyno_servers_window:window(), view()) -> [binary()].
lines(#{start_ns := Ns, nodes := Nodes} = Window, View) ->
    [
        dyno_recording_part:text("~ts ~ts~ts~ts", [clock(Ns), name(Row), values(Row), In])
     || Row <- lists:sublist(rows(View#{window := Window}), ?LINES),
        In <- [[[" node=", Node] || length(Nodes) > 1, #{node := Node} <- [Row]]]
    ].

clock(Ns) ->
    calendar:system_time_to_rfc3339(Ns div 1_000_000, [{unit, millisecond}, {offset, "Z"}]).

-spec alarm(binary()) -> iolist().
alarm(Text) -> [clock(erlang:system_time(nanosecond)), " alarm: ", dyno_text:clean(Text)].

-spec call(#{atom() => term()}) -> binary().
call(#{at_ns := AtNs, name := Name, callback := Callback, tag := Kind} = Call) ->
    #{wall_ns := Ns, message := Message} = Call,
    dyno_recording_part:text("~ts ~ts ~ts ~ts ~ts ~ts", [
        clock(AtNs),
        name(#{name => Name}),
        Callback,
        Kind,
        re:replace(dyno_unit:format(Ns, ~"ns"), " ", ""),
        argument(Message)
    ]).

-spec shown(view()) -> {non_neg_integer(), pos_integer()}.
shown(#{shown := Shown, most := Most}) -> {Shown, Most}.

-spec calls(Status :: binary(), view()) -> binary().
calls(Status, #{shown := Shown, most := Most, ran := Ran}) ->
    Why =
        case Status of
            _ when Shown >= Most -> "that is all that were asked for";
            ~"complete" -> "then the time was over";
            _ -> "then it was interrupted"
        end,
    dyno_recording_part:text("~b of ~b callbacks were shown; ~ts", [
        min(Shown, Most), max(Shown, Ran), Why
    ]).

%% The sent message, without gen_server's wrapper.
argument(Message) ->
    From = "\\{<[^>]*>,(?:\\[alias\\|)?#Ref<[^>]*>\\]?\\}",
    Added = ["^\\{'\\$gen_(?:call',", From, "|cast'),(.*)\\}$"],
    Sent = re:replace(Message, Added, "\\1", [{return, binary}, unicode]),
    string:slice(Sent, 0, ?MOST_CHARACTERS).

name(#{name := Name}) -> re:replace(dyno_text:clean(Name), " ", "_", [global]).

values(Row) ->
    [
        io_lib:format(" ~ts=~ts", [Title, re:replace(Shown, " ", "", [global])])
     || {Title, Key, Unit} <- [
            {"rate", rate, ~"1/s"},
            {"busy", busy, ~"ratio"},
            {"p50", p50, ~"ns"},
            {"p99", p99, ~"ns"},
            {"max", max, ~"ns"},
            {"cpu", cpu, ~"ratio"},
            {"queue", queue_now, ~"count"},
            {"waited_p99", waited_p99, ~"ns"},
            {"exceptions", exceptions, ~"count"}
        ],
        Shown <- [value(maps:get(Key, Row, undefined), Unit)],
        Shown =/= ~"-"
    ].

value(Value, Unit) when is_number(Value) -> dyno_unit:format(Value, Unit);
value(Value, Unit) -> number(Value, Unit).

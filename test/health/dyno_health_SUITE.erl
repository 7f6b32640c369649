%% SPDX-License-Identifier: Apache-2.0
%% Copyright 2026 The dyno authors

-module(dyno_health_SUITE).
-moduledoc """
Each check on looks that were made up: what it finds, how bad that is, and that no other check finds
anything.
""".

-include_lib("stdlib/include/assert.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 1}}].

all() ->
    [
        a_healthy_node,
        each_check,
        each_cause,
        a_cycle_over_nodes,
        a_wait_for_another_node,
        too_few_looks,
        two_looks,
        from_outside,
        standing_still_has_causes,
        processes_that_do_not_answer,
        what_is_missing_is_unknown,
        reads_the_machine
    ].

%% Nothing, and each check could tell; also with what is so for a moment, or has another cause.
a_healthy_node(_Config) ->
    Held = fun
        (4) -> #{~"os.vm.rss" => 1.2e9};
        (_) -> #{}
    end,
    Registrar = [~"global:random_sleep/1", ~"global:loop_the_registrar/0"],
    [
        ?assertEqual(
            [],
            [
                {Name, Of}
             || {#{name := Name}, Of} <- dyno_health:examined(~"shop@host", looks(Changes)),
                Of =/= []
            ]
        )
     || Changes <- [
            %% Cowboy at full load.
            #{often => #{timers => 34_000}, values => #{~"vm.reductions" => 8.0e6}},
            #{},
            #{values => Held},
            %% A lock that a process takes anew each time.
            #{locks => fun(N) -> [held(N)] end},
            #{one => #{queue => 19, stack => Registrar}},
            %% A supervisor that starts children.
            #{
                one => #{
                    group => ~"supervisor:sessions_sup/1",
                    queue => 2,
                    stack => [~"supervisor:do_start_child/3", ~"supervisor:handle_call/3"]
                }
            },
            %% Short lives, of which the function could not be asked.
            #{groups => fun(N) -> [group(~"(ended)", 750 * N, 750)] end},
            %% A worker that takes a batch of messages each second.
            #{
                one => #{
                    queue => 300,
                    queues => [0, 600],
                    status => ~"waiting",
                    stack => [~"timer:sleep/1", ~"shop:batch/1"]
                }
            },
            %% Two processes that talk to each other.
            #{
                values => #{~"vm.context_switches" => 6.0e5, ~"vm.reductions" => 6.0e6},
                groups => [(group(~"shop:read/1", 2, 0))#{reductions := 9_000_000}]
            },
            %% An upgrade, once.
            #{
                loads => fun
                    (N) when N < 2 -> 0;
                    (_) -> 60
                end
            },
            %% Timers that all were set in one window, and none in the others.
            #{
                often => fun
                    (2) -> #{timers => 50_000};
                    (_) -> #{timers => 0}
                end
            },
            %% A burst of jobs that a pool has done soon.
            #{lateness => #{ready => 9.0, most_ready => 400, ready_share => 0.1}},
            %% A second's list of a few processes, and connections that end now.
            #{
                listed => fun(N) -> 5 * N end,
                listings => [#{caller => ~"shop:metrics/0", times => 2}],
                left_open => [#{port => 80, waiting => 9}]
            },
            %% A server that many connect to: ports are made, and no program runs.
            #{programs => #{ports => 5000, names => []}}
        ]
    ].

%% What is wrong in the looks, which checks find it (the worst one first), and how bad that is.
each_check(_Config) ->
    [
        begin
            Outcomes = dyno_health:examined(~"shop@host", looks(Changes)),
            Findings = [F || {_, Of} <- Outcomes, is_list(Of), F <- Of],
            ?assertEqual(
                {Checks, Severity},
                {
                    [Check || #{check := Check} <- dyno_finding:ranked(Findings)],
                    dyno_finding:worst(Findings)
                },
                Changes
            ),
            %% Each number is beyond the limit that it is shown with.
            ?assertEqual(
                [],
                [
                    F
                 || #{value := V, limit := L, beyond := Beyond} = F <- Findings,
                    is_number(V) andalso is_number(L),
                    Beyond < 1
                ]
            ),
            [#{text := Text, advice := Advice} | _] = dyno_finding:ranked(Findings),
            ?assertMatch({_, _}, binary:match(Text, Part), Text),
            ?assertNotEqual(~"", Advice)
        end
     || {Checks, Severity, Part, Changes} <- cases()
    ].

cases() ->
    Full = #{~"vm.scheduler_utilisation.normal" => 1.0, ~"vm.run_queue.normal" => 9},
    [
        {[queue], critical, ~"it never drains", #{one => #{queue => fun(N) -> 2000 + 100 * N end}}},
        {[queue], critical, ~"drained in 17 min", #{
            one => #{queue => fun(N) -> 100_000 - 250 * N end}
        }},
        %% Not long yet.
        {[queue, bottleneck], warning, ~"260 messages wait", #{
            one => #{queue => fun(N) -> 100 + 40 * N end}
        }},
        %% A burst that falls is healthy.
        {[queue], note, ~"drained in", #{one => #{queue => fun(N) -> 60_000 - 10_000 * N end}}},
        %% It ends, and does not answer any more.
        {[queue], critical, ~"3000 messages wait for orders", #{
            suspects => fun
                (4) ->
                    Stack = [~"logger_formatter:format/2", ~"proc_lib:exit_p/3"],
                    [maps:without([queue, name], suspect(#{answered => false, stack => Stack}))];
                (N) ->
                    [suspect(#{queue => fun(_) -> 1000 * N end})]
            end
        }},
        %% Its heap and the node's binaries are messages.
        {[queue], critical, ~"it never drains", #{
            one => #{
                queue => fun(N) -> 2000 + 100 * N end,
                heap_bytes => fun(N) -> 20_000_000 + 5_000_000 * N end,
                priority => ~"normal",
                reductions => 10_000_000
            },
            values => #{~"vm.memory.binary" => 1.2e8, ~"vm.memory.total" => 2.0e8}
        }},
        %% Between the looks it was empty.
        {[queue], note, ~"comes and goes", #{
            one => #{queue => fun(N) -> 1900 - 10 * N end, queues => [0, 3000]}
        }},
        {[queue], note, ~"comes and goes", #{
            one => #{queue => fun(N) -> 1900 - 150 * N end, queues => [0, 3000]}
        }},
        {[queue], note, ~"at times 3442 messages or more wait for orders", #{
            one => #{
                queues => fun
                    (3) -> [0, 3442];
                    (_) -> [0, 100]
                end
            }
        }},
        {[queue], critical, ~"100 fewer each second, it is drained in 5 min", #{
            one => #{
                queue => fun(N) -> element(N + 1, {90_000, 32_000, 30_750, 30_500, 30_250}) end
            }
        }},
        {[queue], warning, ~"formats terms, such as a crash report, with a heap of 800 MB", #{
            one => #{
                stack => [~"io_lib_pretty:print_length/7", ~"proc_lib:crash_report/4"],
                heap_bytes => fun(N) -> 400_000_000 + 100_000_000 * N end,
                reductions => 10_000_000
            }
        }},
        {[heap_grows, big_heap], warning, ~"to 220 MB, of which 180 MB are its stack", #{
            one => #{
                heap_bytes => fun(N) -> 100_000_000 + 30_000_000 * N end,
                stack_bytes => 180_000_000,
                stack => [~"shop:read/1"]
            },
            values => #{~"os.memory.available" => 2.0e10}
        }},
        {[memory_grows], warning, ~"memory outside of the runtime grows by 10 MB a second", #{
            values => fun(N) -> #{~"os.vm.rss" => 7.0e7 + 2.5e7 * N} end
        }},
        {[ends], warning, ~"shop_sup waits for the end of its child drain", #{
            calls => [
                (call(~"<0.3.0>", ~"<0.4.0>", ~"shop_sup", ~"drain"))#{
                    in => ~"supervisor:shutdown/1", to_in => ~"shop:wait/0"
                }
            ]
        }},
        {[cluster], warning, ~"connections to nodes break, or nodes come and go: 12 new ones", #{
            connects => fun(N) -> 3 * N end
        }},
        {[reloads], warning, ~"modules are loaded again and again, 8 times in 10 s, and none", #{
            loads => fun(N) -> 2 * N end
        }},
        {[wakes], note, ~"processes wake up 300 k times a second, and do little each time", #{
            values => #{~"vm.context_switches" => 3.0e5, ~"vm.reductions" => 2.4e6},
            groups => [(group(~"shop:poll/1", 30_000, 0))#{reductions := 6_000_000}]
        }},
        %% It was drained meanwhile: bursts come.
        {[queue], note, ~"comes and goes", #{
            one => #{queue => fun(N) -> element(N + 1, {1200, 4000, 1000, 2000, 3000}) end}
        }},
        {[call_cycle], critical, ~"orders waits for stock, stock waits for orders", #{
            calls => [
                call(~"<0.1.0>", ~"<0.2.0>", ~"orders", ~"stock"),
                call(~"<0.2.0>", ~"<0.1.0>", ~"stock", ~"orders")
            ]
        }},
        {[waited_for], note, ~"6 processes wait in a call to db", #{calls => callers(6)}},
        %% It takes no message.
        {[waited_for, stuck], warning, ~"2 processes wait in a call to db", #{
            one => #{pid => ~"<0.9.0>", queue => 2, status => ~"waiting", reductions => 30},
            calls => callers(2)
        }},
        {[stuck], warning, ~"3 of its messages wait", #{
            one => #{queue => 3, status => ~"waiting", reductions => 30}
        }},
        {[suspended], critical, ~"the program \"sleep\" does not read", #{
            one => #{
                queue => fun(N) -> 200 * N end,
                status => ~"suspended",
                ports => [port(~"sleep", ~"")]
            }
        }},
        {[suspended], critical, ~"is suspended: a port or a link to another node", #{
            suspended => 30,
            suspects => [
                suspect(#{pid => Pid, status => ~"suspended", reductions => 0})
             || Pid <- [~"<0.8.0>", ~"<0.9.0>"]
            ]
        }},
        {[suspended], critical, ~"the link to b@host is full", #{
            one => #{status => ~"suspended"}, full_links => [~"b@host"]
        }},
        {[full_socket], critical, ~"10.0.0.9:4000", #{
            one => #{
                queue => fun(N) -> 200 * N end,
                stack => [~"prim_inet:send/4", ~"shop:publish/2"],
                ports => [port(~"tcp_inet", ~"10.0.0.9:4000")]
            }
        }},
        {[global_lock], critical, ~"20 processes wait for locks of global", #{
            locks => [
                #{
                    resource => ~"global",
                    holders => [
                        #{pid => ~"<0.3.0>", name => ~"<0.3.0>", stack => [~"timer:sleep/1"]}
                    ]
                }
            ],
            places => [place(20, [~"gen:do_call/4", ~"gen:register_name/1"])]
        }},
        {[global_lock], note, ~"no process was seen waiting for locks of global", #{
            locks => [
                #{
                    resource => ~"invoices",
                    holders => [
                        #{pid => ~"<0.3.0>", name => ~"boss", stack => [~"timer:sleep/1"]}
                    ]
                }
            ]
        }},
        {[failures], warning, ~"calls to billing fail: it is not there", #{
            exits => fun(N) -> 1000 * N end,
            failures => [#{server => ~"billing", why => ~"noproc", times => 90}]
        }},
        {[log_events], warning, ~"logs 4000 events a second, most of level error in shop:pay/2", #{
            logged => fun(N) -> 10_000 * N end,
            log_events => [#{level => ~"error", function => ~"shop:pay/2", times => 90}]
        }},
        {[log_events], note, ~"logs 300 events a second", #{logged => fun(N) -> 750 * N end}},
        {[collecting], warning, ~"heap of 60 MB about 25 times a second: shop:price/1 calls", #{
            collects => fun(N) -> 63 * N end,
            collectors => [
                #{name => ~"price", caller => ~"shop:price/1", bytes => 60_000_000, times => 10}
            ]
        }},
        {[hibernation], warning, ~"hibernate 2000 times a second, such as of shop:init/1", #{
            values => #{~"vm.scheduler_utilisation.normal" => 0.9},
            hibernates => fun(N) -> 5000 * N end,
            hibernators => [#{group => ~"shop:init/1", times => 10}]
        }},
        {[queue], critical, ~"orders formats terms, such as a crash report, while 46.8 k", #{
            suspects => fun
                (4) ->
                    Stack = [~"io_lib_pretty:print/2", ~"proc_lib:crash_report/4"],
                    [suspect(#{queue => 46_794, stack => Stack})];
                (_) ->
                    []
            end
        }},
        %% Its writer stands in one write, though it answers the handler.
        {[stuck], warning, ~"waits in io:execute_request/3", #{
            one => #{
                queue => 50,
                status => ~"waiting",
                reductions => 170,
                stack => [~"io:execute_request/3", ~"logger_std_h:write_to_dev/3"]
            }
        }},
        {[stuck], warning, ~"orders is suspended by sys:suspend/1, while 30", #{
            one => #{
                queue => 30,
                status => ~"waiting",
                reductions => 30,
                stack => [~"sys:suspend_loop/6"]
            }
        }},
        {[logger], critical, ~"50 processes wait to log", #{
            places => [place(50, [~"logger_olp:call/2", ~"shop:order/1"])]
        }},
        {[table_grows], warning, ~"table sessions grows by 1000 rows", #{
            tables => fun(N) -> [table(~"sessions", 2500 * N)] end
        }},
        {[held], warning, ~"holds 1.2 GB", #{values => #{~"os.vm.rss" => 1.2e9}}},
        {[garbage], warning, ~"200 MB of terms a second", #{values => #{~"reclaimed" => 2.0e8}}},
        {[queue], critical, ~"messages wait for pool", #{
            one => #{name => ~"pool", queue => fun(N) -> 2000 + 100 * N end, monitored_by => 9}
        }},
        {[bottleneck], warning, ~"was busy at each look", #{one => #{queue => 59}}},
        {[monitors], warning, ~"monitors of 20 processes", #{
            one => #{monitors => fun(N) -> 20_000 + N end, monitored => 20}
        }},
        {[transactions], warning, ~"restarted 3600 times", #{
            transactions => #{~"trans_restarts" => 900, ~"trans_commits" => 100}
        }},
        {
            [transactions],
            warning,
            ~"0 ended: report, in shop:sum/1, holds a lock of table stock",
            #{
                transactions => #{~"trans_restarts" => 900, ~"trans_commits" => 0},
                services => fun(N) ->
                    Lock = #{name => ~"report", stack => [~"shop:sum/1"], table => ~"stock"},
                    #{transaction_locks => [Lock#{transaction => 7}, Lock#{transaction => 8 + N}]}
                end
            }
        },
        {[binaries], warning, ~"rows of table cache are parts of binaries 648 times", #{
            values => #{
                ~"vm.memory.binary" => 6.0e8, ~"vm.memory.total" => 7.0e8, ~"os.vm.rss" => 8.0e8
            },
            binaries => #{
                waiting => 10,
                groups => [],
                tables => [#{name => ~"cache", own_bytes => 1000, kept_bytes => 648_000}]
            }
        }},
        %% Above the limit, which is none.
        {[counts_grow], warning, ~"400 more ETS tables each second", #{
            counts => fun(N) -> #{tables => [8000 + 1000 * N, 8192]} end
        }},
        {
            [disk_logs],
            warning,
            ~"30 processes wait for a disk log to write, such as in shop:pay",
            #{
                places => [place(30, [~"disk_log:monitor_request/2", ~"shop:pay/1"])]
            }
        },
        {[printing], warning, ~"199 processes wait for output of shell, such as", #{
            calls => [
                (call(~"<0.3.0>", ~"<0.4.0>", ~"job", ~"shell"))#{in => ~"io:execute_request/3"}
            ],
            places => [place(199, [~"io:execute_request/3", ~"io:format/2", ~"shop:pay/1"])]
        }},
        {[no_log], warning, ~"the node logs nothing", #{services => #{logging => false}}},
        {[atom_memory], note, ~"10 k atoms take 250 MB", #{
            values => #{~"vm.memory.atom" => 2.5e8}
        }},
        {[global_lock], warning, ~"29 processes or more wait for a lock of global", #{
            places => [place(30, [~"global:random_sleep/1", ~"invoices:number/1"])],
            locks => fun(N) ->
                [
                    #{
                        resource => ~"invoices",
                        holders => [
                            #{
                                pid => <<"<0.", (integer_to_binary(N))/binary, ".0>">>,
                                name => ~"a",
                                stack => [~"global:random_sleep/1"]
                            }
                        ]
                    }
                ]
            end
        }},
        %% Who registers names waits for global's server, whose registrar takes the lock anew.
        {[global_lock], warning, ~"12 processes or more wait for a lock of global", #{
            one => #{pid => ~"<0.9.0>", name => ~"global_name_server", reductions => 500_000},
            calls => [
                C#{to_name := ~"global_name_server"}
             || C <- callers(12)
            ],
            locks => [
                #{
                    resource => ~"global",
                    holders => [
                        #{
                            pid => ~"<0.3.0>",
                            name => ~"<0.3.0>",
                            stack => [~"gen:do_call/4", ~"global:loop_the_registrar/0"]
                        }
                    ]
                }
            ]
        }},
        {[persistent_terms], warning, ~"persistent terms change while the node works", #{
            one => #{group => ~"erts_literal_area_collector:start/0", reductions => 500_000},
            term_changes => fun(N) -> 75 * N end
        }},
        %% At the looks few were seen to wait.
        {[global_lock], warning, ~"or its locks taken, all the time, such as in <0.20.0>", #{
            one => #{
                pid => ~"<0.9.0>",
                name => ~"global_name_server",
                group => ~"global:init/1",
                reductions => 1_000_000
            },
            calls => fun
                (3) ->
                    [
                        C#{from_name := ~"<0.20.0>", to_name := ~"global_name_server"}
                     || C <- callers(2)
                    ];
                (_) ->
                    []
            end
        }},
        {[ends], warning, ~"shop_sup waits for the end of its children", #{
            calls => [
                (call(~"<0.3.0>", ~"children of <0.3.0>", ~"shop_sup", ~"its children"))#{
                    in => ~"supervisor:wait_dynamic_children/5", to_in => ~""
                }
            ]
        }},
        {[ready], warning, ~"about 39 processes are ready all the time, though the schedulers", #{
            lateness => #{ready => 39, most_ready => 41, ready_share => 0.98}
        }},
        {[ready], warning, ~"up to 20 k processes are ready at the same moment, and wait 40 ms", #{
            lateness => #{ready => 800.0, most_ready => 20_000, ready_share => 0.1},
            values => #{~"vm.context_switches" => 2.0e4}
        }},
        {[lists_processes], warning, ~"shop:scan/0 lists all 100 processes 400 times a second", #{
            listed => fun(N) -> 1000 * N end,
            listings => [#{caller => ~"shop:scan/0", times => 160}]
        }},
        {[list_searches], warning, ~"shop:user/1 searches lists of up to 200 k elements", #{
            searches => [
                #{
                    function => ~"lists:keyfind/3",
                    caller => ~"shop:user/1",
                    elements => 60_000_000,
                    longest => 200_000,
                    ms => 400
                }
            ]
        }},
        {[left_open], warning, ~"301 connections or more of port 8080 were closed by the other", #{
            left_open => fun(N) -> [#{port => 8080, waiting => 300 + N}] end
        }},
        {[logger], warning, ~"stand in a log handler in 100 % of their samples", #{
            one => #{stack => [~"shop_log:log/2", ~"logger_backend:call_handlers/3"]}
        }},
        {[accept_queue], warning, ~"15 connections or more wait at port 443", #{
            accept_queues => fun(N) ->
                [#{port => 443, waiting => 15 + N}, #{port => 80, waiting => max(1, 9 - 5 * N)}]
            end
        }},
        {[idle_heaps], note, ~"8000 processes of shop:init/1, which wait, have heaps of 2.4 GB", #{
            values => #{~"vm.memory.total" => 2.6e9, ~"os.vm.rss" => 2.8e9},
            binaries => idle(250_000)
        }},
        {[idle_heaps], warning, ~"heaps of 2.4 GB, 300 kB each", #{
            values => #{
                ~"vm.memory.total" => 2.6e9,
                ~"os.vm.rss" => 2.8e9,
                ~"os.memory.available" => 5.0e9
            },
            binaries => idle(30_000)
        }},
        {[log_files], warning, ~"the log's file /var/log/shop.log does not change", #{
            services => fun(N) ->
                #{
                    log_files => [
                        #{name => ~"/var/log/shop.log", bytes => 4096, reductions => 50_000 * N}
                    ]
                }
            end
        }},
        {[code_server], warning, ~"which looks for module my_plugin in vain", #{
            places => [place(14, [~"code_server:call/1", ~"shop:pay/1"])],
            code_server => 100_000,
            reloads => [#{module => ~"my_plugin", times => 12, per_s => 900.0, is_missing => true}]
        }},
        {[dirty_io], critical, ~"9 of 10 dirty I/O", #{
            values => #{~"vm.scheduler_utilisation.dirty_io" => 0.9},
            threads => #{dirty_io => #{worked_ns => 9_000_000_000, cpu_ns => 1000, ready_ns => 0}}
        }},
        {[dirty_cpu], warning, ~"18 processes wait", #{
            values => #{
                ~"vm.scheduler_utilisation.dirty_cpu" => 1.0, ~"vm.run_queue.dirty_cpu" => 18
            }
        }},
        {[schedulers_full], warning, ~"28 processes are ready", #{
            values => #{
                ~"vm.scheduler_utilisation.normal" => 1.0, ~"vm.run_queue.normal" => 28
            }
        }},
        {[long_schedule], warning, ~"up to 151 ms", #{
            groups => [group(~"shop:spin/1", 2, 0)],
            long => [long(~"long_schedule", ~"<0.4.0>", ~"shop:spin/1", 10, 151)]
        }},
        {[programs], warning, ~"200 ports a second are made, such as for /bin/false", #{
            programs => #{ports => 500, names => [~"/bin/false"]}
        }},
        {[children], warning, ~"sessions lists its children all the time", #{
            one => #{
                name => ~"sessions",
                group => ~"supervisor:sessions_sup/1",
                queue => 2,
                stack => [~"lists:map_1/2", ~"supervisor:handle_call/3", ~"gen_server:loop/5"]
            }
        }},
        {[table_grows], warning, ~"job_scanner keeps it fixed", #{
            tables => fun(N) ->
                [
                    (table(~"jobs", 0))#{
                        bytes => 1_000_000 * (1 + N), fixed_by => ~"job_scanner"
                    }
                ]
            end
        }},
        %% Several busy servers of one kind are one finding.
        {[bottleneck], warning, ~"was busy at each look, and 28 messages", #{
            suspects => [
                suspect(#{pid => ~"<0.8.0>", name => ~"<0.8.0>", queue => fun(N) -> 20 + N end}),
                suspect(#{
                    pid => ~"<0.7.0>", name => ~"<0.7.0>", queue => fun(N) -> 28 + N rem 2 end
                })
            ]
        }},
        %% In a large node its group may not be counted: nothing counted is not no work.
        {[long_schedule], warning, ~"or a built-in one with much to do", #{
            machine => #{~"delay_ns" => 0},
            long => [long(~"long_schedule", ~"<0.4.0>", ~"shop:hub/1", 10, 271)]
        }},
        {[long_schedule], warning, ~"few reductions, such as in a process of shop:spin/1", #{
            one => #{native => true, group => ~"shop:spin/1"},
            counts => fun(_) -> #{reports => false} end,
            values => #{~"vm.scheduler_utilisation.normal" => 0.6, ~"vm.reductions" => 100_000},
            lateness => #{most_ms => 150, together_ms => 0}
        }},
        {[throttled, long_gc], warning, ~"quota held threads back for 0.70 s", #{
            long => [long(~"long_gc", ~"<0.4.0>", ~"shop:spin/1", 1, 869)],
            values => #{~"os.cgroup.throttled" => 0.7}
        }},
        {[long_gc], warning, ~"up to 869 ms", #{
            long => [long(~"long_gc", ~"index", ~"index:init/1", 1, 869)]
        }},
        {[stands_still], critical, ~"stands still 60 %", #{
            lateness => #{most_ms => 70, together_ms => 1500}
        }},
        {[busy_wait], warning, ~"they wait actively", #{values => #{~"os.vm.cpu" => 1.9}}},
        %% As by default, of a node with little work.
        {[busy_wait], note, ~"takes 0.2 processors, its schedulers work for 0.04", #{
            values => #{
                ~"os.vm.cpu" => 0.2,
                ~"vm.scheduler_utilisation.normal" => 0.02,
                ~"vm.scheduler_utilisation.dirty_io" => 0.0
            }
        }},
        %% Other programs have most of the processors.
        {[busy_wait], warning, ~"they wait actively", #{
            values => #{~"vm.reductions" => 50_000}, machine => #{~"delay_ns" => 4_000_000_000}
        }},
        {[busy_wait], warning, ~"wants 1.7 processors, its schedulers work for 0.2", #{
            values => #{~"os.vm.cpu" => 0.1, ~"vm.scheduler_utilisation.normal" => 0.05},
            machine => #{~"delay_ns" => 4_000_000_000},
            machine_now => #{~"busy_wait" => 5}
        }},
        {[hot_table], warning, ~"2 busy processes write table hits", #{
            values => #{~"vm.scheduler_utilisation.normal" => 0.9, ~"os.vm.cpu" => 1.8},
            suspects => [
                suspect(#{
                    pid => Pid,
                    queue => 0,
                    writes => #{table => ~"hits", gap_us => 1.5, locks => true}
                })
             || Pid <- [~"<0.7.0>", ~"<0.8.0>"]
            ]
        }},
        {[hot_table], warning, ~"most likely threads wait for a lock", #{
            values => #{~"vm.scheduler_utilisation.normal" => 1.0, ~"os.vm.cpu" => 1.8},
            threads => #{
                normal => #{worked_ns => 5.0e9, cpu_ns => 5.0e9, ready_ns => 0, slices => 50_000}
            }
        }},
        {[one_process], note, ~"works without a pause", #{
            one => #{priority => ~"normal", reductions => 10_000_000}
        }},
        {[dictionary], warning, ~"a process dictionary for about 600 k keys", #{
            one => #{heap_bytes => 50_000_000, dictionary => 600_000}
        }},
        {[reloads], warning, ~"module rules is loaded again and again, 10 times a second", #{
            reloads => [#{module => ~"rules", times => 4, per_s => 10}]
        }},
        {[more_schedulers], warning, ~"2 schedulers share 1 processors", #{
            counts => fun(_) -> #{processors => 1} end
        }},
        {[processes_grow], critical, ~"300 more processes of shop:request/1", #{
            groups => fun(N) -> [group(~"shop:request/1", 750 * N, 750)] end
        }},
        {[atoms_grow], critical, ~"400 new atoms", #{
            counts => fun(N) -> #{atoms => [10_000 + 1000 * N, 1_048_576]} end
        }},
        {[near_limit], critical, ~"62 of 64 descriptors", #{
            machine_now => #{~"fds" => 62, ~"fds_limit" => 64}
        }},
        {[near_limit], critical, ~"950 of 1000 processes", #{
            counts => fun(_) -> #{processes => [950, 1000]} end,
            groups => fun(_) -> [group(~"shop:request/1", 900, 0)] end
        }},
        {[throttled], warning, ~"0.50 s of each second", #{
            values => #{~"os.cgroup.throttled" => 0.5}
        }},
        {[steal], warning, ~"the hypervisor", #{values => #{~"os.cpu.steal" => 0.3}}},
        {[memory_limit], critical, ~"950 MB of 1 GB", #{
            values => #{~"os.cgroup.memory.used" => 9.5e8, ~"os.cgroup.memory.limit" => 1.0e9}
        }},
        {[swap], warning, ~"pages back from swap", #{machine => #{~"pswpin" => 5000}}},
        {[fragmented], warning, ~"only 0 free pieces", #{
            machine_now => #{~"large_pages" => 0}, values => #{~"os.swap.used" => 1.0e8}
        }},
        {[pressure], warning, ~"wait for disks", #{machine => #{~"pressure_io_full" => 1_000_000}}},
        {[network], note, ~"accept queue was full", #{machine => #{~"ListenOverflows" => 78}}},
        {[restarts], critical, ~"up to 2 of 2 children of shop_sup were other processes", #{
            restarts => fun(N) -> 20 * N end,
            children => [#{supervisor => ~"shop_sup", children => 2, replaced => 2}]
        }},
        %% Not counted by that dyno.
        {[restarts], warning, ~"up to 2 of 2 children of shop_sup were other processes", #{
            children => [#{supervisor => ~"shop_sup", children => 2, replaced => 2}]
        }},
        %% Temporary ones, that end when their work is done.
        {[restarts], note, ~"up to 2 of 9 children of jobs_sup were other processes", #{
            restarts => fun(N) -> N div 4 end,
            children => [#{supervisor => ~"jobs_sup", children => 9, replaced => 2}]
        }},
        {[timers_set], warning, ~"processes set 51 k timers a second, and do little else", #{
            often => #{timers => 51_000},
            values => #{~"vm.reductions" => 4.0e6}
        }},
        %% From OTP 28 on.
        {[hibernation], warning, ~"hibernates again and again", #{
            one => #{reductions => 10_000_000, stack => [~"gen_server:loop_hibernate/4"]}
        }},
        {[collecting], warning, ~"collects garbage in 90 % of its samples", #{
            one => #{
                stack => [~"shop:index/1"],
                collecting => 9,
                reductions => 9000,
                priority => ~"normal"
            }
        }},
        {[log_files], warning, ~"the file of disk log /var/shop.LOG does not change", #{
            services => fun(N) ->
                #{
                    disk_logs => [
                        #{name => ~"/var/shop.LOG", bytes => 900, reductions => 9000 * N},
                        #{name => ~"/var/grows.LOG", bytes => 900 * N, reductions => 9000 * N},
                        #{name => ~"/var/idle.LOG", bytes => 900, reductions => 20 * N}
                    ]
                }
            end
        }},
        {[code_server], warning, ~"27 processes wait for the code server", #{
            places => [place(27, [~"code_server:call/1", ~"shop:plugin/1"])]
        }},
        {[log_handlers], warning, ~"drops events", #{
            services => #{handlers => [#{name => ~"logger_std_h_default", mode => ~"drop"}]}
        }},
        {[applications], note, ~"shop does not run, and shop_web needs it", #{
            services => #{applications => [#{name => ~"shop", needed_by => [~"shop_web"]}]}
        }},
        {[applications], note, ~"is loaded, but does not run", #{
            services => #{applications => [#{name => ~"shop", needed_by => []}]}
        }},
        {[applications], warning, ~"the start of application shop has not ended", #{
            services => #{starting => [~"shop"]},
            places => [place(1, [~"shop_app:start/2", ~"application_master:start_it_old/4"])]
        }},
        {[cluster], warning, ~"b@host does not see c@host", #{
            services => #{views => [view(~"b@host", []), view(~"c@host", [~"b@host"])]}
        }},
        {[cluster], warning, ~"does not answer", #{
            services => #{views => [view(~"b@host", ~"none")]}
        }},
        {[cluster], warning, ~"a connection to b@host", #{
            services => #{connections => [#{node => ~"b@host", state => ~"pending"}]}
        }},
        {[mnesia_overload], warning, ~"written faster than it is dumped", #{
            services => #{overloaded => [~"mnesia_dump_log"]}
        }},
        %% Freed heaps that the runtime keeps are no memory of native code.
        {[held], note, ~"holds 600 MB", #{
            values => #{~"os.vm.rss" => 6.0e8},
            allocators => [
                #{name => ~"segment_cache", held_bytes => 480_000_000, used_bytes => 0},
                #{name => ~"fix_alloc", held_bytes => 200_000, used_bytes => 150_000}
            ]
        }},
        {[many_timers], warning, ~"2000 more each second", #{
            one => #{sets => #{function => ~"erlang:send_after/3", per_s => 2000}},
            allocators => fun(N) ->
                [
                    #{
                        name => ~"fix_alloc",
                        held_bytes => 9_000_000,
                        used_bytes => 200_000 + 800_000 * N
                    }
                ]
            end
        }},
        {[tracing], warning, ~"9 functions have breakpoints", #{
            breakpoints => fun
                (0) -> #{count => 9, names => [~"shop:order/1"]};
                (_) -> #{}
            end
        }},
        {[emulator], warning, ~"one scheduler works only", #{
            services => #{emulator => emulator(#{multi_scheduling => ~"blocked"})}
        }},
        {[priority], warning, ~"at priority high", #{
            one => #{priority => ~"high", reductions => 10_000_000}
        }},
        %% They wait, but for few moments.
        {[priority, schedulers_full], warning, ~"of orders:init/1 work at priority max", #{
            values => Full,
            suspects => [
                suspect(#{
                    pid => Pid, priority => ~"max", reductions => 4_000_000, status => ~"waiting"
                })
             || Pid <- [~"<0.7.0>", ~"<0.8.0>"]
            ]
        }},
        {
            [priority, bottleneck, schedulers_full],
            warning,
            ~"orders has priority low, and messages",
            #{
                values => Full, one => #{priority => ~"low", queue => 30}
            }
        },
        {[heap_grows], note, ~"grows by 2 MB a second", #{
            one => #{heap_bytes => fun(N) -> 9_000_000 + 5_000_000 * N end}
        }},
        {[heap_grows], note, ~"grows by 290 kB a second, though no message waits", #{
            one => #{
                heap_bytes => fun(N) ->
                    element(N + 1, {6_700_000, 12_100_000, 9_600_000, 9_600_000, 17_900_000})
                end,
                status => ~"waiting",
                stack => [~"gen_statem:loop/3", ~"proc_lib:init_p_do_apply/3"]
            }
        }},
        {[garbage], warning, ~"most likely of messages from orders", #{
            one => #{minor_gcs => 3, reductions => 1_500_000}, values => #{~"reclaimed" => 2.0e8}
        }},
        {[long_schedule], warning, ~"few reductions, such as in a process of shop:spin/1", #{
            counts => fun(_) -> #{reports => false} end,
            values => #{~"vm.scheduler_utilisation.normal" => 0.6, ~"vm.reductions" => 100_000},
            long => [long(~"long_schedule", ~"<0.4.0>", ~"shop:spin/1", 1, 120)]
        }},
        {[links], warning, ~"and more at each look", #{
            one => #{links => fun(N) -> 20_000 + 100 * N end}
        }},
        {[hibernation], warning, ~"hibernates again and again", #{
            one => #{reductions => 10_000_000, stack => []}
        }},
        {[table_scans], warning, ~"ets:match/2 scans table presence (200 k rows)", #{
            scanned => fun(N) -> 50 * N end,
            scans => [
                #{
                    function => ~"ets:match/2",
                    caller => ~"shop:who/1",
                    table => ~"presence",
                    rows => 200_000,
                    share => 0.5
                }
            ]
        }},
        {[table_scans], warning, ~"the busiest processes read whole tables, in ets:do_foldl/4", #{
            groups => [(group(~"orders:init/1", 1, 0))#{reductions := 9_000_000}],
            one => #{stack => [~"ets:do_foldl/4", ~"ets:foldl/3", ~"shop:sum/1"]},
            scanned => none
        }},
        %% Its receive, of the user's code, searches.
        {[queue], critical, ~"it never drains", #{
            one => #{queue => fun(N) -> 2000 + 100 * N end, stack => [~"shop:ask/1"]},
            searching => [~"shop:ask/1"]
        }},
        %% A server that waits inside its callback, and goes on.
        {[bottleneck], warning, ~"was busy at each look", #{
            one => #{
                queue => 29,
                status => ~"waiting",
                stack => [~"timer:sleep/1", ~"shop:handle_call/3", ~"gen_server:loop/5"]
            }
        }},
        %% Of a server that is suspended, no other check says that it works.
        {[queue], warning, ~"20 more each second", #{
            one => #{
                queue => fun(N) -> 100 + 50 * N end,
                status => ~"waiting",
                stack => [~"sys:suspend_loop/6", ~"proc_lib:init_p_do_apply/3"]
            }
        }},
        {[dirty_io], warning, ~"9 of 10 dirty I/O schedulers wait for files", #{
            one => #{stack => [~"prim_file:sync/1", ~"shop:log/1"]},
            values => #{~"vm.scheduler_utilisation.dirty_io" => 0.9},
            threads => #{
                dirty_io => #{worked_ns => 9_000_000_000, cpu_ns => 1000, ready_ns => 0}
            }
        }},
        {[logger], warning, ~"20 processes wait to log, such as in shop_log:log/2", #{
            places => [
                place(20, [~"timer:sleep/1", ~"shop_log:log/2", ~"logger_backend:call_handlers/3"])
            ]
        }},
        {[waited_for], warning, ~"6 processes wait in a call to application_controller", #{
            calls => [Call#{to_name := ~"application_controller"} || Call <- callers(6)],
            places => [place(1, [~"shop_app:start/2", ~"application_master:start_it_old/4"])]
        }},
        {[code_server], warning, ~"9 processes wait for the code server", #{
            one => #{name => ~"code_server", queue => 9}
        }},
        {[table_grows, memory_grows], warning, ~"exporter keeps it fixed", #{
            values => fun(N) ->
                #{
                    ~"vm.memory.total" => 1.0e8 + 1.0e7 * N,
                    ~"vm.memory.ets" => 1.0e7 + 1.0e7 * N,
                    ~"os.vm.rss" => 1.1e8 + 1.0e7 * N
                }
            end,
            tables => fun(N) ->
                [(table(~"jobs", 10))#{bytes := 10_000_000 * (N + 1), fixed_by => ~"exporter"}]
            end
        }},
        {[atoms_grow], warning, ~"new modules are loaded all the time, 124 now", #{
            counts => fun(N) -> #{modules => 100 + 6 * N, atoms => [10_000 + 9 * N, 1_048_576]} end,
            newest_atoms => fun(N) ->
                [<<"tmpl_", (integer_to_binary(7 * N + I))/binary>> || I <- [1, 2, 3]]
            end
        }},
        {[timers], warning, ~"900 timers of the module timer exist, all set by timer_server", #{
            tables => [table(~"timer", 900)],
            one => #{name => ~"timer_server", reductions => 900_000}
        }},
        {[timers], warning, ~"4000 intervals", #{
            groups => fun(_) -> [group(~"timer:interval_loop/5", 4000, 0)] end
        }}
    ].

%% By name there, by pid back; at each node alone it is a wait.
a_cycle_over_nodes(_Config) ->
    A = [call(~"<0.9.0>", ~"back at b@host", ~"front", ~"back at b@host")],
    B = [call(~"<0.8.0>", ~"<7123.9.0> at a@host", ~"back", ~"<7123.9.0> at a@host")],
    Of = fun(Calls) -> looks(#{calls => Calls}) end,
    [{~"b@host", {#{name := call_cycle}, [#{text := Text, look_closer := Closer}]}}] =
        dyno_health:across([{~"a@host", Of(A)}, {~"b@host", Of(B)}]),
    ?assertMatch(
        {_, _}, binary:match(Text, ~"back at b@host waits for front at a@host"), Text
    ),
    ?assertMatch({_, _}, binary:match(Closer, ~"b@host \"back\""), Closer),
    ?assertEqual([], dyno_health:across([{~"a@host", Of(A)}, {~"b@host", Of([])}])),
    ?assertEqual([], dyno_health:across([{~"a@host", Of(A)}])).

%% The command names the server's own node.
a_wait_for_another_node(_Config) ->
    Calls = [Call#{to := ~"db at b@host", to_name := ~"db at b@host"} || Call <- callers(6)],
    Closer = [
        Of
     || {_, [#{check := waited_for, look_closer := Of}]} <- dyno_health:examined(
            ~"a@host", looks(#{calls => Calls})
        )
    ],
    ?assertEqual([~"dyno servers b@host \"db\""], Closer).

too_few_looks(_Config) ->
    Outcomes = dyno_health:examined(~"shop@host", [hd(looks(#{}))]),
    ?assert(lists:all(fun({_, {unknown, _}}) -> true end, Outcomes)).

%% Two looks show what lasts if they are far apart, as at a node with a million processes.
two_looks(_Config) ->
    Growing = looks(#{tables => fun(N) -> [table(~"sessions", 2500 * N)] end}),
    Of = fun(Looks) ->
        #{Name => O || {#{name := Name}, O} <- dyno_health:examined(~"shop@host", Looks)}
    end,
    ?assertMatch(
        #{table_grows := [#{subject := ~"sessions"}], memory_grows := [], restarts := {unknown, _}},
        Of([hd(Growing), lists:last(Growing)])
    ),
    ?assertMatch(
        #{
            table_grows := {unknown, ~"too few looks at the node: a longer --for has more"},
            queue := []
        },
        Of(lists:sublist(Growing, 2))
    ).

%% A node that does not answer, by what its process does.
from_outside(_Config) ->
    Thread = fun(Name, State, Call, Cpu) ->
        #{name => Name, state => State, call => Call, cpu => Cpu}
    end,
    Dirty = [Thread(~"erts_dios_1", ~"S", 257, 0.0), Thread(~"erts_dios_2", ~"S", 257, 0.0)],
    Normal = [Thread(~"erts_sched_1", ~"S", 232, 0.0), Thread(~"erts_sched_2", ~"R", none, 0.9)],
    Seen = #{pid => ~"42", threads => Normal, fds => 10, fds_limit => 1024, throttled => 0.0},
    [
        ?assertEqual(Checks, [C || #{check := C} <- dyno_health_outside:judged(shop@host, Of)])
     || {Checks, Of} <- [
            {[], Seen},
            {[stopped], Seen#{threads := [Thread(~"erts_sched_1", ~"T", none, 0.0)]}},
            {[dirty_io], Seen#{threads := Normal ++ Dirty}},
            {[dirty_io], Seen#{
                threads := Normal ++
                    [hd(Dirty) | [Thread(~"erts_dios_3", ~"S", 202, 0.0) || _ <- Normal]]
            }},
            {[near_limit], Seen#{fds := 1020}},
            {[schedulers_full], Seen#{threads := [Thread(~"erts_sched_1", ~"R", none, 1.0)]}},
            {[throttled], Seen#{throttled := 0.7}},
            {[], Seen#{throttled := unknown}}
        ]
    ],
    %% This emulator itself, and one that is not of this machine. A system may have no cgroups.
    {ok, #{threads := [_ | _], throttled := Throttled}} =
        dyno_health_outside:read(list_to_binary(os:getpid())),
    {ok, Groups} = file:read_file("/proc/self/cgroup"),
    IsVisible = lists:any(
        fun filelib:is_regular/1, dyno_agent_os:cgroup_paths(~"cpu", ~"cpu.stat", Groups)
    ),
    ?assert(is_float(Throttled) orelse not IsVisible, {Throttled, Groups}),
    ?assertMatch({unseen, _}, dyno_health_outside:findings(shop@elsewhere)).

%% Others have the processors, or its own work keeps the schedulers: other findings say so.
standing_still_has_causes(_Config) ->
    Late = #{lateness => #{most_ms => 70, together_ms => 1500}},
    [
        begin
            Outcomes = dyno_health:examined(~"shop@host", looks(maps:merge(Late, Cause))),
            ?assertEqual([[]], [Of || {#{name := stands_still}, Of} <- Outcomes])
        end
     || Cause <- [
            #{machine => #{~"delay_ns" => 3_000_000_000}},
            #{values => #{~"vm.scheduler_utilisation.normal" => 0.8}},
            %% Two native calls at the same time.
            #{
                groups => [group(~"shop:spin/1", 2, 0)],
                long => [long(~"long_schedule", ~"<0.4.0>", ~"shop:spin/1", 10, 500)]
            }
        ]
    ].

%% In no look, in the last ones, or in the first ones: each check can tell.
processes_that_do_not_answer(_Config) ->
    Asked = [name, queue, status, priority, heap_bytes, reductions, ports],
    [
        ?assertEqual(
            [],
            [
                Name
             || {#{name := Name}, Of} <- dyno_health:examined(
                    ~"shop@host",
                    looks(#{
                        suspects => fun(N) ->
                            Known = suspect(#{
                                stack => [Top, ~"shop:pay/1"],
                                status => ~"suspended",
                                queue => 20,
                                queues => [9, 20],
                                group => ~"shop:init/1"
                            }),
                            Silent = maps:without(Asked, Known),
                            case Answers(N) of
                                true -> [Known];
                                false -> [Silent#{name => ~"", answered := false}]
                            end
                        end
                    })
                ),
                not is_list(Of),
                unknown =/= element(1, Of)
            ]
        )
     || Top <- [~"prim_inet:send/4", ~"prim_file:sync/1", ~"gen:do_call/4", ~"shop:wait/1"],
        Answers <- [fun(_) -> false end, fun(N) -> N < 2 end, fun(N) -> N > 2 end]
    ].

%% Where /proc cannot be read there is no false "all is well".
what_is_missing_is_unknown(_Config) ->
    Looks = [
        Look#{~"values" := #{}, ~"threads" := #{}, ~"machine" := #{}, ~"machine_now" := #{}}
     || Look <- looks(#{})
    ],
    Unknown = [
        Name
     || {#{name := Name}, {unknown, _}} <- dyno_health:examined(~"shop@host", Looks)
    ],
    ?assertEqual([], [held, dirty_io, schedulers_full, busy_wait, swap, steal, garbage] -- Unknown).

reads_the_machine(_Config) ->
    ?assertEqual(
        #{
            ~"pressure_io_some" => 12,
            ~"pswpin" => 3,
            ~"large_pages" => 6,
            ~"fds_limit" => 64,
            ~"ListenOverflows" => 7,
            ~"busy_wait" => 5
        },
        dyno_agent_os_health:parse(#{
            pressure_io => ~"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
            vmstat => ~"nr_free 1\npswpin 3\n",
            buddy => ~"Node 0, zone   Normal   9   9   9   9   1   2   3\n",
            limits => ~"Limit  Soft  Hard  Units\nMax open files            64     128    files\n",
            netstat => ~"TcpExt: A ListenOverflows\nTcpExt: 1 7\n",
            cmdline => ~"beam.smp\0-sbwt\0very_long\0--\0"
        })
    ),
    ?assertEqual(
        [{443, 0, 15, ~"77"}, {80, 0, 0, ~"78"}],
        dyno_agent_os_health:in_state(
            ~"0A",
            ~"""
              sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
               0: 00000000:01BB 00000000:0000 0A 00000000:0000000F 00:00000000 00000000 0 0 77 1
               1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 78 1
               2: 0100007F:0050 0100007F:D902 01 00000000:0000000F 00:00000000 00000000 0 0 79 1
            """
        )
    ).

%% Why a queue is long, and who does the work, by where processes stand.
each_cause(_Config) ->
    Waits = #{
        queue => fun(N) -> 20_000 + 5000 * N end,
        reductions => 11_000,
        stack => [~"shop:wait/1", ~"shop:loop/2"]
    },
    Sender = (call(~"<0.7.0>", ~"<0.9.0>", ~"orders", ~"tls_sender"))#{in => ~"gen:do_call/4"},
    [
        begin
            Evidence = [
                iolist_to_binary([Text, " ", maps:get(evidence, F, ~"")])
             || {#{name := Is}, [#{text := Text} = F | _]} <- dyno_health:examined(
                    ~"shop@host", looks(Changes)
                ),
                Is =:= Check
            ],
            ?assertMatch([<<_, _/binary>>], Evidence),
            ?assertMatch({_, _}, binary:match(hd(Evidence), Part), Evidence)
        end
     || {Check, Part, Changes} <- [
            %% New messages wake it, and it looks at these only.
            {queue, ~"waiting: this receive does not take them", #{
                one => Waits, searching => [~"shop:wait/1"]
            }},
            {queue, ~"which searches the whole mailbox at each call", #{
                one => Waits#{reductions := 400_000_000}, searching => [~"shop:wait/1"]
            }},
            %% It may take the first one each time.
            {queue, ~"shop:loop/2, whose receive takes only some messages: it searches", #{
                one => Waits#{reductions := 400_000_000, stack := [~"shop:loop/2"]},
                selecting => [~"shop:loop/2"]
            }},
            {queue, ~"gen:do_call/4, called by shop:publish/2, and waits for tls_sender", #{
                one => Waits#{
                    status => ~"waiting",
                    monitored_by => 10,
                    stack := [~"gen:do_call/4", ~"shop:publish/2"]
                },
                calls => [Sender]
            }},
            {suspended, ~"At the last look 30 processes were suspended.", #{
                one => #{status => ~"suspended", reductions => 0}, suspended => 30
            }},
            {full_socket, ~"in a send to 10.0.0.9:443: most likely that side", #{
                one => Waits#{
                    pid => ~"<0.9.0>",
                    stack := [~"socket:send_deadline/4"],
                    ports => [#{name => ~"socket", peer => ~"10.0.0.9:443"}]
                }
            }},
            {full_socket, ~"orders waits in a call to it", #{
                one => Waits#{pid => ~"<0.9.0>", stack := [~"prim_inet:send/4"]},
                calls => [Sender]
            }},
            {ends, ~"in all 5 looks. drain stands in shop:wait/0. The node is being stopped", #{
                calls => [
                    (call(~"<0.3.0>", ~"<0.4.0>", ~"shop_sup", ~"drain"))#{
                        in => ~"supervisor:shutdown/1", to_in => ~"shop:wait/0"
                    }
                ],
                places => [place(1, [~"init:shutdown_loop/4"])]
            }},
            {long_schedule, ~"25 times; likely the copy of a large term", #{
                groups => [group(~"shop:spin/1", 1, 0)],
                long => [long(~"long_schedule", ~"<0.4.0>", ~"shop:spin/1", 5, 500)],
                values => #{~"reclaimed" => 6.0e8}
            }},
            {long_gc, ~"lacked a processor at times", #{
                long => [long(~"long_gc", ~"<0.4.0>", ~"shop:spin/1", 1, 128)],
                values => #{~"os.cgroup.throttled" => 0.7}
            }},
            {processes_grow, ~"in shop:ask/1; web started it.", #{
                groups => fun(N) -> [group(~"orders:init/1", 750 * N, 750)] end,
                one => #{stack => [~"shop:ask/1"], parent => ~"web"}
            }},
            {schedulers_full, ~"All 5 processes of shop:init/1 together did 100 %", #{
                values => #{
                    ~"vm.scheduler_utilisation.normal" => 1.0, ~"vm.run_queue.normal" => 9
                },
                groups => [(group(~"shop:init/1", 5, 0))#{reductions := 9_000_000}],
                one => #{}
            }}
        ]
    ].

%% Looks, 2.5 s apart, that differ from those at a healthy node as the changes say.

looks(#{one := Suspect} = Changes) ->
    looks(maps:remove(one, Changes#{suspects => [suspect(Suspect)]}));
looks(Changes) ->
    [dyno_recording:document(look(N, Changes)) || N <- lists:seq(0, 4)].

look(N, Changes) ->
    Of = fun(Key, Default) ->
        case maps:get(Key, Changes, Default) of
            Value when is_function(Value) -> Value(N);
            Value -> Value
        end
    end,
    Merged = fun(Key, Default) -> maps:merge(Default, Of(Key, #{})) end,
    #{
        time_ms => 2500 * N,
        interval_ms =>
            case N of
                0 -> 0;
                _ -> 2500
            end,
        values => Merged(values, values()),
        threads => Merged(threads, #{
            normal => #{worked_ns => 1_000_000_000, cpu_ns => 1_000_000_000, ready_ns => 0},
            dirty_io => #{worked_ns => 0, cpu_ns => 0, ready_ns => 0}
        }),
        machine => Merged(machine, #{~"pswpin" => 0, ~"delay_ns" => 0}),
        machine_now => Merged(machine_now, #{~"MemFree" => 2.0e9, ~"large_pages" => 9000}),
        counts => Merged(counts, #{
            processes => [100, 1_048_576],
            ports => [9, 65536],
            atoms => [10_000, 1_048_576],
            tables => [20, 8192],
            modules => 100,
            schedulers => 2,
            dirty_cpu => 2,
            dirty_io => 10,
            processors => 2,
            reports => true
        }),
        allocators => Of(allocators, [
            #{name => ~"eheap_alloc", held_bytes => 9000, used_bytes => 8000},
            #{name => ~"fix_alloc", held_bytes => 200_000, used_bytes => 150_000}
        ]),
        tables => Of(tables, [table(~"cache", 1000)]),
        names => Of(names, []),
        children => Of(children, []),
        restarts => Of(restarts, none),
        exits => Of(exits, 0),
        connects => Of(connects, 0),
        loads => Of(loads, 0),
        collects => Of(collects, 0),
        collectors => Of(collectors, []),
        hibernates => Of(hibernates, 0),
        hibernators => Of(hibernators, []),
        atom_makers => Of(atom_makers, []),
        failures => Of(failures, []),
        logged => Of(logged, 0),
        log_events => Of(log_events, []),
        scanned => Of(scanned, 0),
        term_changes => Of(term_changes, 0),
        scans => Of(scans, []),
        accept_queues => Of(accept_queues, []),
        left_open => Of(left_open, []),
        searches => Of(searches, []),
        newest_atoms => Of(newest_atoms, [~"shop_web", ~"GET", ~"shop_db"]),
        listed => Of(listed, 0),
        listings => Of(listings, []),
        often => Of(often, #{}),
        long => Of(long, []),
        lateness => Merged(lateness, #{
            most_ms => 0, together_ms => 0, ready => 0.1, most_ready => 2, ready_share => 0.0
        }),
        locks => Of(locks, []),
        processes => #{count => 100, every => 1},
        groups => Of(groups, [group(~"shop:init/1", 5, 0)]),
        places => Of(places, []),
        calls => Of(calls, []),
        spawned => 10,
        programs => Of(programs, #{ports => 0, names => []}),
        full_links => Of(full_links, []),
        suspended => Of(suspended, 0),
        binaries => Of(binaries, #{}),
        transactions => Of(transactions, #{}),
        code_server => Of(code_server, 0),
        reloads => Of(reloads, []),
        searching => Of(searching, []),
        selecting => Of(selecting, []),
        breakpoints => Of(breakpoints, #{}),
        services => Merged(services, #{
            handlers => [#{name => ~"logger_std_h_default", mode => ~"async"}],
            overloaded => [],
            applications => [],
            log_files => [],
            disk_logs => [],
            logging => true,
            connections => [#{node => ~"b@host", state => ~"up"}],
            views => [],
            tracing => [],
            emulator => emulator(#{})
        }),
        suspects => [
            maps:map(
                fun
                    (_, F) when is_function(F) -> F(N);
                    (_, V) -> V
                end,
                S
            )
         || S <- Of(suspects, [])
        ]
    }.

values() ->
    #{
        ~"vm.memory.total" => 1.0e8,
        ~"vm.memory.binary" => 1.0e6,
        ~"vm.memory.atom" => 1.0e6,
        ~"os.vm.rss" => 1.1e8,
        ~"reclaimed" => 1.0e5,
        ~"vm.reductions" => 1.0e6,
        ~"vm.context_switches" => 1.0e4,
        ~"os.vm.cpu" => 0.5,
        ~"vm.scheduler_utilisation.normal" => 0.2,
        ~"vm.scheduler_utilisation.dirty_cpu" => 0.0,
        ~"vm.scheduler_utilisation.dirty_io" => 0.01,
        ~"vm.run_queue.normal" => 0,
        ~"vm.run_queue.dirty_cpu" => 0,
        ~"os.cpu.steal" => 0.0,
        ~"os.swap.used" => 0
    }.

emulator(Of) ->
    maps:merge(
        #{
            type => ~"opt",
            flavor => ~"jit",
            multi_scheduling => ~"enabled",
            all_schedulers => 2
        },
        Of
    ).

view(Node, Sees) -> #{node => Node, sees => Sees}.

suspect(Of) ->
    Stack = maps:get(stack, Of, [~"shop:handle_cast/2", ~"gen_server:loop/5"]),
    maps:merge(
        #{
            pid => ~"<0.7.0>",
            name => ~"orders",
            group => ~"orders:init/1",
            answered => true,
            status => ~"running",
            queue => 0,
            reductions => 5000,
            heap_bytes => 10_000,
            ports => [],
            looks => 10,
            stacks => [#{stack => Stack, count => 10}]
        },
        maps:remove(stack, Of)
    ).

long(Kind, Process, Group, Count, Ms) ->
    #{
        kind => Kind,
        process => Process,
        group => Group,
        count => Count,
        most_ms => Ms
    }.

call(From, To, FromName, ToName) ->
    #{from => From, to => To, from_name => FromName, to_name => ToName}.

callers(Count) ->
    [
        call(<<"<0.", (integer_to_binary(20 + N))/binary, ".0>">>, ~"<0.9.0>", ~"web", ~"db")
     || N <- lists:seq(1, Count)
    ].

held(N) ->
    #{
        resource => ~"row",
        holders => [
            #{
                pid => ~"<0.9.0>",
                name => ~"rows",
                hold => integer_to_binary(N),
                stack => [~"shop:change/1"]
            }
        ]
    }.

idle(Survived) ->
    #{
        waiting => 8000,
        tables => [],
        groups => [
            #{
                group => ~"shop:init/1",
                processes => 300,
                bytes => 0,
                heap_bytes => 90_000_000,
                survived_bytes => 300 * Survived
            }
        ]
    }.

port(Name, Peer) ->
    #{name => Name, peer => Peer, queue_bytes => 15_900}.

place(Count, Stack) -> #{count => Count, stack => Stack}.

table(Name, Objects) -> #{name => Name, tables => 1, objects => Objects, bytes => 100 * Objects}.

group(Name, Count, Started) ->
    #{
        group => Name,
        count => Count,
        started => Started,
        ended => 0,
        queue => 0,
        reductions => 0
    }.

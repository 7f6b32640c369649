{module, dyno_bench_arm_input}.  %% version = 0

{exports, [{f,0},{module_info,0},{module_info,1}]}.

{attributes, []}.

{labels, 11}.


{function, f, 0, 2}.
  {label,1}.
    {line,[]}.
    {func_info,{atom,dyno_bench_arm_input},{atom,f},0}.
  {label,2}.
    {allocate,0,0}.
    {move,{integer,1000},{x,1}}.
    {move,{integer,1},{x,0}}.
    {line,[{location,[],1}]}.
    {call_ext,2,{extfunc,lists,seq,2}}.
    {call_last,1,{f,8},0}. % '-f/0-lc$^0/1-0-'/1


{function, module_info, 0, 4}.
  {label,3}.
    {line,[]}.
    {func_info,{atom,dyno_bench_arm_input},{atom,module_info},0}.
  {label,4}.
    {move,{atom,dyno_bench_arm_input},{x,0}}.
    {call_ext_only,1,{extfunc,erlang,get_module_info,1}}.


{function, module_info, 1, 6}.
  {label,5}.
    {line,[]}.
    {func_info,{atom,dyno_bench_arm_input},{atom,module_info},1}.
  {label,6}.
    {move,{x,0},{x,1}}.
    {move,{atom,dyno_bench_arm_input},{x,0}}.
    {call_ext_only,2,{extfunc,erlang,get_module_info,2}}.


{function, '-f/0-lc$^0/1-0-', 1, 8}.
  {label,7}.
    {line,[{location,[],1}]}.
    {func_info,{atom,dyno_bench_arm_input},{atom,'-f/0-lc$^0/1-0-'},1}.
  {label,8}.
    {test,is_nonempty_list,{f,9},[{x,0}]}.
    {allocate,1,1}.
    {get_tl,{x,0},{y,0}}.
    {move,{integer,99999},{x,0}}.
    {call_ext,1,{extfunc,rand,uniform,1}}.
    {swap,{y,0},{x,0}}.
    {call,1,{f,8}}. % '-f/0-lc$^0/1-0-'/1
    {'%',{var_info,{x,0},[{type,{t_list,any,nil}}]}}.
    {test_heap,2,1}.
    {put_list,{y,0},{x,0},{x,0}}.
    {deallocate,1}.
    return.
  {label,9}.
    {test,is_nil,{f,10},[{x,0}]}.
    return.
  {label,10}.
    {test_heap,3,1}.
    {put_tuple2,{x,0},{list,[{atom,bad_generator},{x,0}]}}.
    {call_ext_only,1,{extfunc,erlang,error,1}}.

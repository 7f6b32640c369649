{module, dyno_bench_arm_2}.  %% version = 0

{exports, [{f,0},{module_info,0},{module_info,1}]}.

{attributes, []}.

{labels, 7}.


{function, f, 0, 2}.
  {label,1}.
    {line,[]}.
    {func_info,{atom,dyno_bench_arm_2},{atom,f},0}.
  {label,2}.
    {move,{integer,1},{x,1}}.
    {move,{integer,100},{x,0}}.
    {line,[{location,[],1}]}.
    {call_ext_only,2,{extfunc,lists,duplicate,2}}.


{function, module_info, 0, 4}.
  {label,3}.
    {line,[]}.
    {func_info,{atom,dyno_bench_arm_2},{atom,module_info},0}.
  {label,4}.
    {move,{atom,dyno_bench_arm_2},{x,0}}.
    {call_ext_only,1,{extfunc,erlang,get_module_info,1}}.


{function, module_info, 1, 6}.
  {label,5}.
    {line,[]}.
    {func_info,{atom,dyno_bench_arm_2},{atom,module_info},1}.
  {label,6}.
    {move,{x,0},{x,1}}.
    {move,{atom,dyno_bench_arm_2},{x,0}}.
    {call_ext_only,2,{extfunc,erlang,get_module_info,2}}.

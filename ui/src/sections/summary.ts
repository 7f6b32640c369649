// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The answer first: did it pass, what are the metrics at each size, what to beware of, and where
// it was measured.

import { absent, framed, h, type Child } from '../dom';
import { answers } from './bench';
import { outcome } from './compare';
import { environment } from './environment';
import {
    findMetric,
    mostOf,
    runPlace,
    runTitle,
    sizeLabel,
    type Finding,
    type Recording,
    type Run,
    type Text,
    type Verdict,
} from '../recording';
import { breakable } from '../tablecells';
import { date, format, raw } from '../units';
import type { Section, View } from '../view';

/** More are shown when they are asked for. */
const fewFindings = 8;

/** The metrics of the first table, in its order; all others are in the second. */
const keyMetrics = [
    'throughput',
    'latency.p50',
    'latency.p90',
    'latency.p99',
    'latency.p99.9',
    'latency.max',
    'errors.rate',
    'vm.memory.total.max',
];

const marks: Record<string, [mark: string, word: string]> = {
    pass: ['✓', 'passed'],
    fail: ['✗', 'failed'],
    unknown: ['?', 'not known'],
};

export const summary: Section = {
    id: 'summary',
    title: 'Summary',
    scope: 'recording',
    render: (view: View) => {
        const { recording } = view;
        return [
            unfinished(recording),
            banner(recording),
            ...(recording.command === 'bench' ? answers(recording) : []),
            outcome(recording),
            ...findings(recording, 'Findings', ['critical', 'warning']),
            nothingFound(recording),
            ...thresholds(recording),
            ...errors(recording),
            ...(ofRunning.includes(recording.command) ? [] : measured.render(view)),
        ];
    },
};

/** Of these commands the node comes first: what is wrong with it, and what it does. */
export const ofRunning = ['record', 'servers', 'profile', 'doctor'];

/** Of a running node this comes last. */
export const measured: Section = {
    id: 'measured',
    title: 'How it was measured',
    short: 'Measured',
    scope: 'recording',
    render: ({ recording }: View): Child[] => [
        ...findings(recording, 'Doubts and notes', ['doubt', 'note']),
        ...(recording.compared ? [] : [...metrics(recording), cost(recording)]),
        environment(recording),
    ],
};

/** Only the checks of doctor can say that. */
function nothingFound({ command, runs, findings: found }: Recording): Child {
    const looked = runs.some((run) => run.events.items.some((e) => e.kind === 'look'));
    const wrong = found.some((f) => f.severity === 'critical' || f.severity === 'warning');
    if (!looked || wrong || !ofRunning.includes(command)) return null;
    return h('div', { class: 'banner pass' }, h('strong', {}, 'Nothing found.'), ' The checks of dyno doctor found nothing wrong with the node.');
}

/** The line under the page's heading. */
export function facts(recording: Recording): string {
    const environment = recording.environment;
    const runs = recording.runs.length;
    const { compared } = recording;
    if (compared) {
        const [old, now] = [compared.old, compared.new].map((r) => r.started_at && date(r.started_at));
        return `${now ?? 'new'} compared with ${old ?? 'old'}`;
    }
    return [
        recording.started_at && date(recording.started_at),
        recording.duration_ns !== null && format(recording.duration_ns, 'ns'),
        `${runs} ${runs === 1 ? 'run' : 'runs'}`,
        environment.otp && `OTP ${environment.otp}`,
        environment.hostname,
    ]
        .filter(Boolean)
        .join(' · ');
}

/** Each with what shows it and what to do. */
function findings(recording: Recording, title: string, severities: Finding['severity'][]): Child[] {
    const all = recording.findings.filter((f) => severities.includes(f.severity));
    if (all.length === 0) return [];
    return [
        h('h3', {}, title),
        h('ul', { class: 'findings' }, ...all.slice(0, fewFindings).map(finding)),
        all.length > fewFindings
            ? h(
                  'details',
                  {},
                  h('summary', {}, `${all.length - fewFindings} more`),
                  h('ul', { class: 'findings' }, ...all.slice(fewFindings).map(finding)),
              )
            : null,
    ];
}

function finding({ severity, text, lines }: Finding): HTMLElement {
    return h(
        'li',
        { class: severity },
        h('strong', {}, severity.charAt(0).toUpperCase() + severity.slice(1)),
        ` ${text}`,
        ...lines.map(([label, line]) =>
            h('p', {}, label === '' ? line : `${label}: `, label === '' ? null : label === 'Look closer' ? h('code', {}, line) : line),
        ),
    );
}

function unfinished(recording: Recording): Child {
    const says: Record<string, string> = {
        failed: 'The measurement could not be finished.',
        interrupted:
            'The measurement was interrupted: what follows is what was measured until then.',
        partial: 'The recording is partial: it was still being written, or its writer died.',
    };
    if (recording.status === 'complete') return null;
    const sentence = says[recording.status] ?? `The recording's status is “${recording.status}”.`;
    return h(
        'div',
        { class: 'banner attention' },
        h('strong', {}, sentence),
        recording.error ? ` ${recording.error.text}` : null,
    );
}

function banner({ command, verdicts, parameters }: Recording): Child {
    if (verdicts.length === 0 && command !== 'test') return null;
    if (verdicts.length === 0) {
        const asked = Array.isArray(parameters.thresholds) && parameters.thresholds.length > 0;
        return h(
            'div',
            { class: 'banner' },
            h('strong', {}, 'No verdict.'),
            asked ? ' The thresholds were not checked.' : ' The suite sets no thresholds.',
        );
    }
    // As the console counts: what is demanded once is one, at however many sizes it is looked at.
    const names = [...new Set(verdicts.map((v) => `${v.kind} ${v.name}`))];
    const of = names.map((name) => worst(verdicts.filter((v) => `${v.kind} ${v.name}` === name))!.result);
    const count = (result: string) => of.filter((r) => r === result).length;
    const all = of.length;
    const what = verdicts.every((v) => v.kind === 'threshold') ? 'threshold' : 'check';
    const checks = all === 1 ? what : `${what}s`;
    const says = (kind: string, word: string, sentence: string) =>
        h('div', { class: `banner ${kind}`, id: 'verdict' }, h('strong', {}, word), ` ${sentence}.`);
    const [failed, open] = [count('fail'), all - count('pass')];
    if (failed > 0)
        return says('fail', '✗ Failed.', `${failed} of ${all} ${checks} ${failed === 1 ? 'does' : 'do'} not hold`);
    if (open > 0)
        return says('attention', '? Not decided.', `${open} of ${all} ${checks} could not be evaluated; no other failed`);
    return says('pass', '✓ Passed.', all === 1 ? `The one ${what} holds` : `All ${all} ${checks} hold`);
}

function thresholds(recording: Recording): Child[] {
    const { verdicts } = recording;
    if (verdicts.length === 0) return [];
    const names = [...new Set(verdicts.map((v) => v.name))];
    const kinds = [...new Set(verdicts.map((v) => v.kind))];
    const runs = recording.runs.filter((r) => verdicts.some((v) => v.run === r.id));
    const overall = verdicts.some((v) => !runs.some((r) => r.id === v.run));
    const places = bySize(runs);
    const head = [
        h('th', { scope: 'col' }, kinds.length === 1 ? titleOfKind(kinds[0]!) : 'Demand'),
        ...places.map((of) =>
            h(
                'th',
                { scope: 'col', class: 'number' },
                of.length > 1 ? format(of[0]!.size, 'count') : runTitle(recording, of[0]!),
            ),
        ),
        overall ? h('th', { scope: 'col', class: 'number' }, 'Overall') : null,
    ];
    const rows = names.map((name) => {
        const of = verdicts.filter((v) => v.name === name);
        return h(
            'tr',
            {},
            h('th', { scope: 'row' }, ...breakable(name)),
            ...places.map((at) => verdictCell(of.filter((v) => at.some((r) => r.id === v.run)))),
            overall
                ? verdictCell(of.filter((v) => !runs.some((r) => r.id === v.run)))
                : null,
        );
    });
    return [
        fixedTable(
            (kinds.length === 1 ? `${titleOfKind(kinds[0]!)}s` : 'Demands').replace('ys', 'ies'),
            [
                runs.length > 0 ? `by ${sizeLabel(recording).toLowerCase()}` : '',
                places.length < runs.length ? 'the worst of the repetitions' : '',
            ]
                .filter(Boolean)
                .join(', '),
            head,
            rows,
        ),
        reasons(verdicts),
    ];
}

const titleOfKind = (kind: string) => kind.charAt(0).toUpperCase() + kind.slice(1);

/** What is not a limit of one number, or could not be evaluated, says in words why. */
function reasons(verdicts: Verdict[]): Child {
    const said = verdicts.filter(
        ({ result, threshold, kind, text }) =>
            text !== '' &&
            (result === 'unknown' || (result === 'fail' && (!threshold || kind === 'change'))),
    );
    if (said.length === 0) return null;
    return h(
        'ul',
        { class: 'sentences' },
        ...said.map((v) => h('li', {}, h('strong', {}, v.name), `: ${v.text}`)),
    );
}

/** The repetitions of a size together. */
function bySize(runs: Run[]): Run[][] {
    const of = new Map<number | string, Run[]>();
    for (const run of runs) {
        const size = run.size ?? run.id;
        of.set(size, [...(of.get(size) ?? []), run]);
    }
    return [...of.values()];
}

/** Of several verdicts for one place (of nodes, of repetitions), the one that must not be missed. */
function worst(verdicts: Verdict[]): Verdict | undefined {
    const severity = ({ result }: Verdict) => (result === 'fail' ? 0 : result === 'pass' ? 2 : 1);
    // The value that is nearest to the limit, or farthest beyond it.
    const sign = verdicts[0]?.threshold?.operator.startsWith('>') ? 1 : -1;
    const margin = ({ threshold }: Verdict) => sign * (threshold?.value ?? 0);
    return [...verdicts].sort((a, b) => severity(a) - severity(b) || margin(a) - margin(b))[0];
}

function verdictCell(verdicts: Verdict[]): HTMLElement {
    const verdict = worst(verdicts);
    if (!verdict) return h('td', { class: 'number' });
    const [mark, word] = marks[verdict.result] ?? marks.unknown!;
    const others = verdicts.length > 1 ? `The worst of ${verdicts.length}.` : '';
    const { value, unit, bound } = verdict.threshold ?? { value: null, unit: '1', bound: null };
    const sign = { at_least: '> ', at_most: '< ' }[bound ?? ''] ?? '';
    const measured = verdict.threshold ? `Measured: ${sign}${raw(value, unit)}.` : '';
    const title = [verdict.text, measured, others]
        .filter(Boolean)
        .join('\n');
    return h(
        'td',
        { class: `number verdict ${verdict.result}`, title },
        h('span', { class: 'mark', role: 'img', 'aria-label': word }, mark),
        verdict.threshold ? sign + format(value, unit) : word,
    );
}

function errors(recording: Recording): Child[] {
    const ofAll = recording.status === 'complete' && recording.error ? [recording.error] : [];
    const items = [
        ...ofAll.map((e) => message('', e)),
        ...recording.runs.flatMap((r) =>
            r.error ? [message(recording.runs.length > 1 ? runPlace(recording, r) : '', r.error)] : [],
        ),
    ];
    if (items.length === 0) return [];
    return [h('h3', {}, 'Errors'), h('ul', { class: 'messages' }, ...items)];
}

function message(where: string, { code, text }: Text): HTMLElement {
    return h(
        'li',
        { class: 'error', title: code },
        h('strong', {}, 'Error', where ? ` at ${where}` : ''),
        ': ',
        text,
    );
}

function metrics(recording: Recording): Child[] {
    const { runs } = recording;
    if (runs.length === 0)
        return [h('h3', {}, 'Metrics'), absent('No run was finished, so there are no metrics.')];
    const found = (run: Run, name: string) =>
        findMetric(run, name) ?? mostOf(run, name.replace(/\.max$/, ''));
    // Without a load a row of them would be one number.
    const known = ofRunning.includes(recording.command)
        ? []
        : keyMetrics.filter((name) => runs.some((r) => found(r, name)));
    const names = [...new Set(runs.flatMap((r) => r.metrics.map((m) => m.name)))];
    const titleOf = (name: string) =>
        runs.map((r) => findMetric(r, name)).find((m) => m)?.title ?? name;
    const unfinishedRuns = runs.some((r) => r.status !== 'complete');
    const value = (name: string) => (run: (typeof runs)[number]) => {
        const m = found(run, name);
        if (!m) return h('td', { class: 'number null', title: 'not measured' }, '–');
        const bounds = [m.low, m.high].map((bound) => format(bound, m.unit)).join(' to ');
        const interval = m.low === null || m.high === null ? '' : ` (${bounds})`;
        const title = raw(m.value, m.unit);
        return h('td', { class: 'number', title }, format(m.value, m.unit) + interval);
    };
    const byRun = runs.map((run) =>
        h(
            'tr',
            {},
            h('th', { scope: 'row' }, runTitle(recording, run)),
            unfinishedRuns ? h('td', {}, run.status) : null,
            ...known.map((name) => value(name)(run)),
        ),
    );
    const heads = [
        h('th', { scope: 'col' }, sizeLabel(recording)),
        unfinishedRuns ? h('th', { scope: 'col' }, 'Status') : null,
        ...known.map((name) =>
            h(
                'th',
                { scope: 'col', class: 'number', title: name },
                shortTitle(titleOf(name), name),
            ),
        ),
    ];
    const allHeads = [
        h('th', { scope: 'col' }, 'Metric'),
        h('th', { scope: 'col' }, 'Name in thresholds'),
        ...runs.map((r) =>
            h('th', { scope: 'col', class: 'number' }, runs[1] ? runTitle(recording, r) : 'Value'),
        ),
    ];
    const all = names.map((name) =>
        h(
            'tr',
            {},
            h('th', { scope: 'row' }, titleOf(name)),
            h('td', {}, h('code', {}, ...breakable(name))),
            ...runs.map(value(name)),
        ),
    );
    return [
        known.length > 0 ? fixedTable('Key metrics', known.includes('latency.p50') ? 'p50 to Max: response time' : '', heads, byRun) : null,
        names.length === 0
            ? null
            : h(
                  'details',
                  { id: 'metrics', open: known.length === 0 && !['bench', 'record'].includes(recording.command) },
                  h('summary', {}, names.length === 1 ? '1 metric' : `All ${names.length} metrics`),
                  fixedTable('', '', allHeads, all),
              ),
    ];
}

/** The cost of measuring: ratios with their intervals, or that nothing can be told. */
function cost(recording: Recording): Child {
    const [response, throughput] = ['instrument.response_ratio', 'instrument.throughput_ratio'];
    const spent = [
        ['To measure calls', 'instrument.spent'],
        ['To sample stacks', 'instrument.stacks'],
    ].filter(([, name]) => recording.runs.some((run) => findMetric(run, name!)));
    const compared = recording.runs.some((run) => findMetric(run, response!));
    const runs = recording.runs.filter((run) =>
        [response, ...spent.map(([, name]) => name)].some((name) => findMetric(run, name!)),
    );
    if (runs.length === 0) return null;
    const ratioOf = (run: Run, name: string) => {
        const metric = findMetric(run, name);
        const told = (value: number) => value.toFixed(2);
        if (!metric) return h('td', { class: 'number null' }, '–');
        const { value, low, high } = metric;
        if (value === null) {
            const why = low === null ? 'too few operations to tell' : 'too noisy to tell';
            return h('td', { class: 'number null' }, why);
        }
        const between = low === null || high === null ? '' : ` (${told(low)} to ${told(high)})`;
        return h('td', { class: 'number' }, `×${told(value)}${between}`);
    };
    const plain = (run: Run, name: string, unit: string) =>
        h('td', { class: 'number' }, format(findMetric(run, name)?.value ?? null, unit));
    const heads = [
        ...(compared ? ['Response time', 'Throughput'] : []),
        ...spent.map(([title]) => title!),
        ...(compared ? ['Operations without measuring'] : []),
    ];
    return fixedTable(
        'Cost of measuring',
        compared ? 'against runs without it' : '',
        [
            h('th', { scope: 'col' }, sizeLabel(recording)),
            ...heads.map((head) => h('th', { scope: 'col', class: 'number' }, head)),
        ],
        runs.map((run) =>
            h(
                'tr',
                {},
                h('th', { scope: 'row' }, runTitle(recording, run)),
                ...(compared ? [ratioOf(run, response!), ratioOf(run, throughput!)] : []),
                ...spent.map(([, name]) => plain(run, name!, 'ratio')),
                compared ? plain(run, 'uninstrumented.operations', 'count') : null,
            ),
        ),
    );
}

/** Percentiles are known by their short name; in a row of metrics the rest of the title repeats. */
function shortTitle(title: string, name: string): string {
    const percentile = /^latency\.(p[\d.]+)$/.exec(name);
    if (percentile) return percentile[1]!;
    const known: Record<string, string> = {
        'latency.max': 'Max',
        'errors.rate': 'Errors',
        'vm.memory.total.max': 'Memory',
        throughput: 'Throughput',
    };
    return known[name] ?? title;
}

function fixedTable(
    caption: string,
    note: string,
    head: Child[],
    rows: HTMLElement[],
): HTMLElement {
    return h(
        'div',
        { class: 'table' },
        caption
            ? h(
                  'div',
                  { class: 'tablehead' },
                  h('h3', {}, caption),
                  h('span', { class: 'count' }, note),
              )
            : null,
        framed(caption || 'Metrics', null, head, rows),
    );
}

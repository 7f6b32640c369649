// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// What of the page needs no page: trees of flame graphs, addresses, places of labels, numbers. In
// Node.js alone, without a browser.

import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const src = join(dirname(fileURLToPath(import.meta.url)), '..', 'src');
const modules = ['flametree', 'state', 'labels', 'units', 'flow', 'uncertain'];
const { outputFiles } = await build({
    stdin: {
        contents: modules.map((name) => `export * as ${name} from './${name}';`).join('\n'),
        resolveDir: src,
    },
    bundle: true,
    write: false,
    format: 'esm',
});
const code = Buffer.from(outputFiles[0].contents).toString('base64');
const { flametree, state, labels, units, flow, uncertain } = await import(
    `data:text/javascript;base64,${code}`
);

const profile = {
    frames: ['a', 'b', 'c', 'd'],
    samples: [
        { stack: [0, 1, 2], values: [30], labels: ['web'] },
        { stack: [0, 3], values: [10], labels: ['web'] },
        { stack: [0, 1, 0, 1, 2], values: [20], labels: ['db'] },
        { stack: [3], values: [0], labels: ['db'] },
        { stack: [3], values: [null], labels: ['db'] },
    ],
};
const stacks = flametree.stacksOf(profile, 0);
const value = (tree, ...path) =>
    path.reduce((at, name) => [...at.below.values()].find((f) => f.name === name), tree)?.value;

test('reads stacks, without those of no value', () => {
    assert.equal(stacks.length, 3);
    assert.equal(flametree.total(stacks), 60);
    assert.deepEqual(flametree.labelsOf(stacks), [['web', 40], ['db', 20]]);
});

test('grows trees from the callers down, and from what ran up', () => {
    const down = flametree.topDown(stacks);
    assert.equal(down.value, 60);
    assert.equal(value(down, 'web'), 40);
    assert.equal(value(down, 'web', 'a', 'b', 'c'), 30);
    const up = flametree.bottomUp(stacks);
    assert.equal(value(up, 'c'), 50);
    assert.equal(value(up, 'c', 'b', 'a', 'web'), 30);
    assert.equal(value(up, 'd', 'a', 'web'), 10);
});

test('puts callers and callees around a function, each stack once', () => {
    const { callers, callees } = flametree.around(stacks, 'b');
    assert.deepEqual([callers.value, callees.value], [50, 50]);
    // The inner calls of a recursion are among its callees, not among its callers.
    assert.equal(value(callers, 'a', 'db'), 20);
    assert.equal(value(callers, 'a', 'web'), 30);
    assert.equal(value(callees, 'c'), 30);
    assert.equal(value(callees, 'a', 'b', 'c'), 20);
    assert.equal(flametree.around(stacks, 'nobody').callers.value, 0);
    const { rows, middle } = flametree.sandwich(stacks, 'b', 0);
    assert.deepEqual(rows[middle].map(({ frame }) => frame.name), ['b']);
    assert.deepEqual(rows[middle - 1].map(({ frame }) => frame.name), ['a']);
    assert.deepEqual(rows[middle + 1].map(({ frame }) => frame.name), ['c', 'a']);
});

test('compares two profiles by the shares of their stacks', () => {
    const [one] = stacks;
    const now = [{ ...one, value: 300 }, { frames: ['a', 'new'], label: 'web', value: 100, change: 0 }];
    const both = flametree.topDown(flametree.difference(stacks, now));
    const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);
    near(both.value, 1);
    near(both.change, 0);
    const web = [...both.below.values()].find((f) => f.name === 'web');
    near(web.change, 1 - 40 / 60);
    // What is gone and what is new stand beside each other, as wide as half of their share.
    near(value(both, 'db'), 20 / 60 / 2);
    near(value(both, 'web', 'a', 'new'), 0.125);
});

test('counts a function once for a stack', () => {
    const of = Object.fromEntries(flametree.functionsOf(stacks).map((f) => [f.name, [f.own, f.all]]));
    assert.deepEqual(of, { c: [50, 50], d: [10, 10], a: [0, 60], b: [0, 50] });
    assert.equal(flametree.shareOf('B', stacks), 50 / 60);
    assert.equal(flametree.shareOf('nobody', stacks), 0);
    assert.equal(flametree.shareOf('a', []), 0);
});

test('gives each frame its place, the zoomed one all', () => {
    const root = flametree.topDown(stacks);
    const rows = flametree.layout([root], 0);
    for (const row of rows) {
        for (const [i, box] of row.entries()) {
            assert.ok(box.start >= 0 && box.start + box.width <= 1 + 1e-9);
            if (i > 0) assert.ok(box.start >= row[i - 1].start + row[i - 1].width - 1e-9);
        }
    }
    assert.deepEqual(rows[1].map((b) => b.frame.name), ['web', 'db']);
    const db = rows[1][1];
    const zoomed = flametree.layout(flametree.pathTo(db), 0);
    assert.deepEqual([zoomed[1][0].start, zoomed[1][0].width], [0, 1]);
    assert.equal(zoomed.length, 7);
    // What is too narrow to be seen is left out, with all below it.
    assert.deepEqual(flametree.layout([root], 0.5)[1].map((b) => b.frame.name), ['web']);
    assert.equal(flametree.boxAt(rows[1], 0.9).frame.name, 'db');
    assert.equal(flametree.boxAt(rows[9], 0.9), undefined);
});

test('reads and writes addresses', () => {
    const round = (hash) => state.printed(state.parsed(hash));
    assert.equal(round(''), '');
    assert.equal(round('#load'), 'load');
    assert.equal(round('#load?run=16&open=function+a:b/2'), 'load?run=16&open=function+a:b/2');
    const odd = new Map([['open', "function 'größe?&=#':f/2"], ['run', '16#2']]);
    const { section, chosen } = state.parsed(`#${state.printed({ section: 'x', chosen: odd })}`);
    assert.equal(section, 'x');
    assert.deepEqual(chosen, odd);
});

test('puts labels where none lies over another', () => {
    const width = 70;
    for (let seed = 1; seed < 400; seed++) {
        const random = (n) => (Math.abs(Math.sin(seed * 12.9898 + n * 78.233)) * 43758.5453) % 1;
        const all = Array.from({ length: 1 + (seed % 5) }, (_, n) => ({ at: random(n) * 320, width }));
        const places = labels.labelPlaces(all, 0, 320);
        for (const [i, one] of places.entries()) {
            assert.ok(one.start >= 0 && one.start + width <= 320);
            for (const other of places.slice(i + 1)) {
                const apart = one.start + width <= other.start || other.start + width <= one.start;
                assert.ok(one.row !== other.row || apart, JSON.stringify({ all, places }));
            }
        }
    }
    // One beside the other where there is room.
    const far = labels.labelPlaces([{ at: 10, width }, { at: 200, width }], 0, 320);
    assert.deepEqual(far, [{ start: 14, row: 0 }, { start: 204, row: 0 }]);
});

test('shows at most four digits', () => {
    const raw = (...of) => units.raw(...of).replace(/\s/, ' ');
    assert.equal(raw(16104.44657630356, '1/s'), '16,104 1/s');
    assert.equal(raw(1.0230456, 'ms'), '1.023 ms');
    assert.equal(raw(123456789, 'ns'), '123,456,789 ns');
    assert.equal(raw(0.000123456, 'ratio'), '0.0001235 ratio');
    assert.equal(units.format(1500, 'ns').replace(/\s/, ' '), '1.50 us');
});

const flows = (...pairs) => pairs.map(([from, to]) => ({ from, to, rate: 10 }));
const placed = (names, of) => flow.places(names, of).map(({ name, column, row }) => `${name}${column}${row}`);

test('a stage stands right of all that give to it', () => {
    assert.deepEqual(placed(['c', 'b', 'a'], flows(['a', 'b'], ['b', 'c'])), ['c20', 'b10', 'a00']);
    // Two ways of different length: the longer one counts.
    assert.deepEqual(placed(['a', 'b', 'c'], flows(['a', 'c'], ['a', 'b'], ['b', 'c'])), ['a00', 'b10', 'c20']);
    assert.deepEqual(placed(['a', 'b', 'c'], flows(['a', 'b'], ['a', 'c'])), ['a00', 'b10', 'c11']);
    assert.deepEqual(placed(['a', 'b'], []), ['a00', 'b01']);
});

test('stages in a circle have places, too', () => {
    const names = flow.places(['a', 'b'], flows(['a', 'b'], ['b', 'a'])).map((p) => p.column);
    assert.equal(new Set(names).size, 2);
    assert.deepEqual(placed(['a'], flows(['a', 'a'])), ['a00']);
});

test('a line is the wider the more flows', () => {
    assert.equal(flow.lineWidth(100, 100), 8);
    assert.equal(flow.lineWidth(10, 100), 4);
    assert.equal(flow.lineWidth(null, 100), 1.5);
    assert.equal(flow.lineWidth(0, 0), 1.5);
});

test('tells an imprecise share by the end that tells something', () => {
    const column = (name, role, of = null) => ({ name, role, of, type: 'number', unit: 'ratio' });
    const columns = [
        { name: 'function', role: 'key', type: 'string', unit: null },
        column('share', 'value'),
        column('share_low', 'low', 'share'),
        column('share_high', 'high', 'share'),
    ];
    const rows = [
        ['f', 0.5, 0.46, 0.54],
        ['g', 0.269, 0.001, 0.3],
        ['h', 0.8, 0.34, 1],
        ['i', 0.8, 0, 1],
    ];
    const { table, show } = uncertain.withBounds({ name: 'functions', columns, rows });
    const shown = table.rows.map((row) => show.share(row[1], row));
    assert.deepEqual(shown, ['50.0 %', '< 30.0 %', '> 34.0 %', '–']);
});

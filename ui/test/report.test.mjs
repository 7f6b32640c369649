// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Opens reports in a real browser and uses them. DYNO_REPORT and DYNO_REPORT_SEVERAL name the pages,
// made from the recordings of test/report/dyno_report_html_data.erl; DYNO_BROWSER the browser (scripts/browser prints one).
// test/report/dyno_report_html_SUITE.erl sets them.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const report = pathToFileURL(process.env.DYNO_REPORT ?? '').href;
const several = pathToFileURL(process.env.DYNO_REPORT_SEVERAL ?? '').href;
const openWithinMs = 2000;

let browser;
let address;
let page;
let problems;
let requests;

before(async () => {
    browser = await chromium.launch({
        executablePath: process.env.DYNO_BROWSER,
        args: [
            '--disable-background-networking',
            '--disable-component-update',
            '--disable-sync',
            '--no-first-run',
            ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
        ],
    });
});

after(() => browser?.close());

async function open(options, which = report) {
    address = which;
    const context = await browser.newContext({
        viewport: { width: 1200, height: 900 },
        ...options,
    });
    page = await context.newPage();
    problems = [];
    requests = [];
    page.on('console', (message) => problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('dialog', (dialog) => {
        problems.push(`dialog: ${dialog.message()}`);
        dialog.dismiss();
    });
    page.on('request', (request) => requests.push(request.url()));
    await page.goto(address);
    if (options?.javaScriptEnabled !== false) await page.waitForSelector('.plot canvas');
}

beforeEach(() => open());

// Whatever a test did: nothing on the console, no script of a name ran, nothing left the page.
afterEach(async () => {
    assert.deepEqual(problems, []);
    assert.deepEqual(
        requests.filter((url) => !url.startsWith('data:')),
        [address],
    );
    await page.context().close();
});

const names = (table) => page.locator(`[data-table="${table}"] tbody th`);
const heading = (table, column) =>
    page.locator(`[data-table="${table}"] [data-column="${column}"]`);

async function column(table, index) {
    const cells = page.locator(`[data-table="${table}"] tbody tr > :nth-child(${index})`);
    return cells.evaluateAll((all) => all.map((cell) => cell.title));
}

/** Charts, and those of them whose canvas has any pixel drawn over in the plot's colours. */
async function charts() {
    return page.evaluate(() => {
        const figures = [...document.querySelectorAll('figure.chart')];
        const coloured = figures.filter((figure) => {
            const canvas = figure.querySelector('canvas');
            if (!canvas) return false;
            const { data } = canvas
                .getContext('2d')
                .getImageData(0, 0, canvas.width, canvas.height);
            for (let i = 0; i < data.length; i += 4) {
                const [r, g, b, a] = data.slice(i, i + 4);
                // Axes and grid are grey; lines are not.
                if (a > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 60) return true;
            }
            return false;
        });
        return { all: figures.length, drawn: coloured.length };
    });
}

test('opens fast', async () => {
    const ms = await page.evaluate(
        () => performance.getEntriesByType('navigation')[0].loadEventEnd,
    );
    assert.ok(ms < openWithinMs, `${ms} ms`);
});

test('says the verdict first, with the failed thresholds', async () => {
    assert.match(await page.locator('#verdict').innerText(), /Failed\. 2 of 12 checks do not hold/);
    assert.equal(await page.locator('#summary .verdict.fail').count(), 2);
    assert.equal(await page.locator('#summary .verdict.unknown').count(), 3);
    assert.match(await page.locator('#summary').innerText(), /Warning at Connections 10,000/);
});

test('draws every chart, those of unknown instruments too', async () => {
    // 3 over sizes; 3 over time and 1 distribution; 1 of functions; 9 of the VM; 4 of the system
    // (CPU, memory, network, the VM's own memory); 2 of the instrument it does not know.
    assert.deepEqual(await charts(), { all: 23, drawn: 23 });
    assert.equal(await page.locator('#other figure').count(), 2);
    assert.match(await page.locator('#other').innerText(), /GPU kernels[\s\S]*softmax/);
    assert.match(await page.locator('#figures').textContent(), /12\.5.furlong/);
});

test('shows hostile and foreign names as text', async () => {
    assert.equal(await page.locator('img').count(), 0);
    assert.match(
        await page.locator('#processes').innerText(),
        /<\/script><img src=x onerror=alert\(1\)>/,
    );
    await page.getByLabel('Search in Functions').fill('größe zählen');
    assert.deepEqual(await names('functions').allInnerTexts(), ["'größe_模块':'zählen_🐎'/2"]);
});

test('sorts tables, unknown values last', async () => {
    await page
        .locator('[data-table="functions"]')
        .getByRole('button', { name: /Show all/ })
        .click();
    const check = async (direction) => {
        const values = await column('functions', 3);
        const known = values.filter((v) => v !== 'not known');
        assert.deepEqual(values.slice(known.length), ['not known']);
        const numbers = known.map((v) => Number(v.replace(/[^\d.]/g, '')));
        assert.deepEqual(
            numbers,
            [...numbers].sort((a, b) => (a - b) * direction),
        );
        assert.equal(numbers.length, 250);
    };
    await check(-1);
    await heading('functions', 'own_time').click();
    await check(1);
    assert.equal(await page.locator('[data-table="functions"] [aria-sort="ascending"]').count(), 1);
    await heading('functions', 'function').press('Enter');
    assert.equal(
        await names('functions').first().innerText(),
        await names('functions').evaluateAll(
            (all) =>
                all
                    .map((n) => n.innerText)
                    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))[0],
        ),
    );
});

test('shows long tables in part until asked, and searches all of them', async () => {
    assert.equal(await names('functions').count(), 25);
    await page.getByLabel('Search in Functions').fill('APP_module_240');
    assert.deepEqual(await names('functions').allInnerTexts(), ['app_module_240:function/0']);
    assert.match(
        await page.locator('[data-table="functions"] .count').innerText(),
        /1 of 251 rows/,
    );
    await page.getByLabel('Search in Functions').fill('');
    assert.equal(await names('functions').count(), 25);
    assert.match(await page.locator('#functions').innerText(), /17 more rows were left out/);
});

test('shows the chosen size, and says why a part is empty', async () => {
    assert.match(await page.locator('#load').innerText(), /connections 10,000[\s\S]*timeout/);
    await page.getByRole('radio', { name: '100', exact: true }).check();
    assert.match(
        await page.locator('#load').innerText(),
        /connections 100\n[\s\S]*No operation failed/,
    );
    const memory = await page.locator('[data-table="processes"] tbody tr').allInnerTexts();
    assert.ok(memory.some((row) => /connection_process\/4\s+initial_call\s+100\s/.test(row)));
    await page.waitForFunction(() => document.querySelectorAll('.plot canvas').length === 23);
    assert.equal((await charts()).drawn, 23);
});

test('reads values with the pointer and with the keyboard', async () => {
    const chart = page.locator('#load figure').filter({ hasText: 'Throughput' }).locator('.plot');
    await chart.focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('End');
    await page.keyboard.press('ArrowLeft');
    const tip = chart.locator('.tooltip');
    assert.match(await tip.innerText(), /59.s[\s\S]*k\/s[\s\S]*[\d,]+\.\d+.1\/s/);
    await page.locator('#theme').focus();
    await chart.hover();
    assert.ok(await tip.isVisible());
});

test('switches lines off and on', async () => {
    const line = page.locator('#load .legend button').first();
    await line.click();
    assert.equal(await line.getAttribute('aria-pressed'), 'false');
    await line.click();
    assert.equal(await line.getAttribute('aria-pressed'), 'true');
});

test('follows the system and the reader in light and dark', async () => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    const light = await background();
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
    assert.notEqual(await background(), light);
    await page.locator('#theme').click();
    assert.equal(await theme(), 'light');
    assert.equal(await background(), light);
    assert.equal((await charts()).drawn, 23);
});

test('fits a narrow screen', async () => {
    await page.setViewportSize({ width: 400, height: 800 });
    await page.waitForFunction(() => document.querySelector('.plot canvas').clientWidth < 400);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 400);
});

test('says the essential without scripts', async () => {
    await page.context().close();
    await open({ javaScriptEnabled: false });
    const text = await page.locator('body').innerText();
    assert.match(text, /Cowboy answering HTTP requests[\s\S]*latency\.p99 < 20 ms[\s\S]*fail/);
});

test('shows repetitions and nodes, and the worst of several verdicts', async () => {
    await page.context().close();
    await open({}, several);
    const verdict = page
        .locator('#summary tr', { hasText: 'latency.p99' })
        .first()
        .locator('.verdict');
    assert.match(await verdict.innerText(), /✗23\.7/);
    assert.equal(await names('processes').count(), 4);
    await page.locator('#node').selectOption('b@host');
    assert.equal(await names('processes').count(), 3);
    await page.locator('#run').selectOption('100#2');
    assert.match(await page.locator('#processes h2').innerText(), /connections 100 \(2\)/);
    assert.equal(await page.locator('#node').inputValue(), 'b@host');
    assert.match(await page.locator('#vm').innerText(), /was not sampled in this run/);
});

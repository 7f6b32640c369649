// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Values with their units, for people: three significant digits and a prefix. The raw value with
// its unit as recorded is always beside it, in a tooltip.

const minus = '−';
const gap = ' ';

type Scale = [factor: number, name: string][];

const time: Scale = [
    [1e9, 's'],
    [1e6, 'ms'],
    [1e3, 'us'],
    [1, 'ns'],
];
const toNanoseconds: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
const bytes: Scale = [
    [1e12, 'TB'],
    [1e9, 'GB'],
    [1e6, 'MB'],
    [1e3, 'kB'],
    [1, 'B'],
];
const prefixes: Scale = [
    [1e12, 'T'],
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
    [1, ''],
];

/** Three significant digits, never in exponent form, whole numbers whole. */
export function digits(value: number, significant = 3): string {
    if (!Number.isFinite(value)) return String(value);
    const size = Math.abs(value);
    if (size === 0) return '0';
    if (size < 1e-6) return value.toExponential(significant - 1).replace('-', minus);
    const decimals = Math.max(0, significant - 1 - Math.floor(Math.log10(size)));
    const fixed = value.toFixed(Math.min(decimals, 9));
    const short = Number.isInteger(value) ? String(value) : fixed;
    return short.replace('-', minus);
}

export function grouped(value: number): string {
    const [whole = '', fraction] = String(value).split('.');
    const withCommas = whole.replace(/\B(?=(\d{3})+$)/g, ',').replace('-', minus);
    return fraction === undefined ? withCommas : `${withCommas}.${fraction}`;
}

/** Rounded before its decimals are counted, so that 9.996 becomes 10.0 and not 10.00. */
function threeDigits(value: number): string {
    const rounded = Number(value.toPrecision(3));
    const decimals = 2 - Math.floor(Math.log10(Math.abs(rounded)));
    return decimals > 0 && decimals < 6
        ? rounded.toFixed(decimals).replace('-', minus)
        : digits(rounded);
}

function scaled(value: number, scale: Scale, suffix = ''): string {
    const size = Math.abs(value);
    // 999.6 with three digits is 1000 of the smaller unit: take the next one already there.
    const step = scale.find(([factor]) => size >= factor * 0.9995) ?? scale[scale.length - 1]!;
    const unit = step[1] + suffix;
    const shown =
        step[0] === 1 && Number.isInteger(value)
            ? String(value).replace('-', minus)
            : threeDigits(value / step[0]);
    return unit ? `${shown}${gap}${unit}` : shown;
}

function duration(nanoseconds: number): string {
    const seconds = nanoseconds / 1e9;
    if (Math.abs(seconds) < 120) return scaled(nanoseconds, time);
    const whole = Math.round(seconds);
    const parts = [
        [Math.floor(whole / 3600), 'h'],
        [Math.floor(whole / 60) % 60, 'min'],
        [whole % 60, 's'],
    ];
    return parts
        .filter(([n]) => n !== 0)
        .slice(0, 2)
        .map(([n, u]) => `${n}${gap}${u}`)
        .join(' ');
}

function count(value: number): string {
    if (Math.abs(value) >= 1e6) return scaled(value, prefixes);
    if (Number.isInteger(value)) return grouped(value);
    return Math.abs(value) >= 1000 ? grouped(Math.round(value)) : digits(value);
}

function per(value: number, top: string, bottom: string): string {
    if (bottom === 'call')
        return top in toNanoseconds ? duration(value * toNanoseconds[top]!) : count(value);
    if (top === 'B') return scaled(value, bytes, `/${bottom}`);
    if (!['1', 'count'].includes(top)) return `${count(value)}${gap}${top}/${bottom}`;
    // As the console: thousands from 10,000 on.
    if (Math.abs(value) >= 1000 && Math.abs(value) < 9999.5) return `${Math.round(value)}${gap}/${bottom}`;
    const factor = prefixes.find(([f]) => Math.abs(value) >= f * 0.9995) ?? prefixes[4]!;
    return `${threeDigits(value / factor[0])}${gap}${factor[1]}/${bottom}`;
}

/** A value for people, such as `1.23 ms`, `45.2 kB` or `12.3 k/s`. */
export function format(value: number | null, unit: string | null): string {
    if (value === null || value === undefined) return '–';
    if (value === 0) return unit === 'ratio' ? `0${gap}%` : '0';
    if (unit === null || unit === '1')
        return Math.abs(value) >= 1e6 ? scaled(value, prefixes) : count(value);
    if (unit in toNanoseconds) return duration(value * toNanoseconds[unit]!);
    if (unit === 'B') return scaled(value, bytes);
    if (unit === 'ratio') return `${threeDigits(value * 100)}${gap}%`;
    if (unit === 'count' || unit === 'words') return count(value);
    const [top, bottom] = unit.split('/');
    if (top !== undefined && bottom !== undefined) return per(value, top, bottom);
    return `${count(value)}${gap}${unit}`;
}

/** A factor, such as `1.061` or `7.30`: more digits where it is near 1. */
export function ratio(value: number | null): string {
    if (value === null) return '–';
    return Math.abs(value) < 2 ? value.toFixed(3) : threeDigits(value);
}

export function share(value: number): string {
    return tick(value, 'ratio');
}

/** For axes: `20 ms`, not `20.0 ms`. */
export function tick(value: number, unit: string | null): string {
    return format(value, unit).replace(/\.0+(?!\d)|(\.\d*[1-9])0+(?!\d)/, '$1');
}

/** The value in the unit that it was recorded in; of a fraction four digits. */
export function raw(value: number | null, unit: string | null): string {
    if (value === null || value === undefined) return 'not known';
    const rounded = Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(4));
    const shown = grouped(rounded);
    if (unit === null || unit === '1' || unit === 'count') return shown;
    return `${shown}${gap}${unit}`;
}

/** `2026-11-21T08:00:12Z` as `21 Nov 2026, 08:00 UTC`; what is no time stays as it is. */
export function date(iso: string): string {
    const parts = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}:\d{2})/.exec(iso);
    if (!parts) return iso;
    const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
    return `${Number(parts[3])} ${months[Number(parts[2]) - 1]} ${parts[1]}, ${parts[4]} UTC`;
}

/** `08:00:12`, in UTC as all times of a recording. */
export function timeOfDay(ms: number): string {
    return new Date(ms).toISOString().slice(11, 19);
}

/** The name of a unit for a heading, where the values' own suffixes do not say it. */
export function unitHint(unit: string | null): string {
    if (unit === null || unit === '1' || unit === 'count') return '';
    return unit === 'ratio' ? 'percent' : unit;
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Where the stages of a pipeline are drawn: from left to right as events flow, those of one distance
// from the sources under each other. Pure.

export interface Flow {
    from: string;
    to: string;
    /** Events a second; null where it is not known. */
    rate: number | null;
}

export interface Place {
    name: string;
    column: number;
    row: number;
}

/** Each stage stands right of all that give to it; a flow that closes a circle is left out of that. */
export function places(names: string[], flows: Flow[]): Place[] {
    const columns = new Map<string, number>();
    const before = (name: string) => flows.filter((f) => f.to === name && f.from !== name);
    const columnOf = (name: string, path: string[]): number => {
        const known = columns.get(name);
        if (known !== undefined) return known;
        const givers = before(name).filter((f) => names.includes(f.from) && !path.includes(f.from));
        const column = Math.max(-1, ...givers.map((f) => columnOf(f.from, [...path, name]))) + 1;
        columns.set(name, column);
        return column;
    };
    const rows = new Map<number, number>();
    return names.map((name) => {
        const column = columnOf(name, [name]);
        const row = rows.get(column) ?? 0;
        rows.set(column, row + 1);
        return { name, column, row };
    });
}

/** The width of a line by its rate: a tenfold rate is twice as wide. */
export function lineWidth(rate: number | null, most: number): number {
    if (rate === null || rate <= 0 || most <= 0) return 1.5;
    return Math.max(1.5, 8 * 0.5 ** Math.log10(most / rate));
}

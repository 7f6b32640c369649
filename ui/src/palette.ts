// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The colours of lines. They live in the style sheet (--line-0 ...), once for each theme; after one
// round of them, lines are dashed.

const colours = 6;
const dashes: (number[] | undefined)[] = [undefined, [6, 4], [2, 3]];

/** For elements: follows the theme by itself. */
export function lineVariable(index: number): string {
    return `var(--line-${index % colours})`;
}

/** For canvases: what the variable is now. */
export function lineColour(index: number): string {
    return styleColour(`line-${index % colours}`);
}

export function lineDash(index: number): number[] | undefined {
    return dashes[Math.floor(index / colours) % dashes.length];
}

/** The same colour, see-through, for areas. */
export function areaColour(index: number, opacity: number): string {
    const hex = lineColour(index);
    const part = (from: number) => parseInt(hex.slice(from, from + 2), 16);
    return `rgba(${part(1)}, ${part(3)}, ${part(5)}, ${opacity})`;
}

export function styleColour(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

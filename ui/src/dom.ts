// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Elements from code. Everything a recording says goes through text nodes and properties, never
// through markup, so a name in a recording cannot become an element.

export type Child = Node | string | null | undefined | false;

export interface Attributes {
    class?: string;
    onClick?: (event: MouseEvent) => void;
    [name: string]: unknown;
}

/** An element: attributes by name, `class`, `onClick`, and children; absent ones are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value === undefined || value === null || value === false) continue;
        if (name === 'onClick') element.addEventListener('click', value as (e: Event) => void);
        else element.setAttribute(name, value === true ? '' : String(value));
    }
    append(element, children);
    return element;
}

// A number and its unit stay in one line.
const quantity = /(\d) (?=(?:%|min|h|[mnu]?s|B|[kMGT]B?|[kMGT]?\/\w+)(?!\w))/g;

export function append(parent: Element, children: Child[]): void {
    for (const child of children) {
        if (child) parent.append(child instanceof Node ? child : child.replace(quantity, '$1\xa0'));
    }
}

/** A sentence in place of a chart or table that is not there. */
export function absent(sentence: string): HTMLElement {
    return h('p', { class: 'absent' }, sentence);
}

/** A table that scrolls by itself where it is wider than the page. */
export function framed(label: string, kind: string | null, head: Child[], rows: Child[]): HTMLElement {
    return h(
        'div',
        { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label },
        h('table', { class: kind ?? undefined }, h('thead', {}, h('tr', {}, ...head)), h('tbody', {}, ...rows)),
    );
}

/** A list to choose from: what is chosen, and what it says. */
export function dropdown(
    attributes: Attributes,
    options: [value: string, text: string][],
    now: string,
    pick: (value: string) => void,
): HTMLSelectElement {
    const list = h(
        'select',
        attributes,
        ...options.map(([value, text]) => h('option', { value, selected: value === now }, text)),
    );
    list.addEventListener('change', () => pick(list.value));
    return list;
}

// The page shows what nodes answer only as text: el appends strings as text nodes, and nothing here parses HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const collator = new Intl.Collator("en", { numeric: true });

function el(tag, props, ...children) {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(props ?? {})) {
		if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
		else if (value !== undefined && value !== false) e.setAttribute(name, value);
	}
	e.append(...children.flat(Infinity).filter((c) => c || c === 0).map((c) => (c instanceof Node ? c : String(c))));
	return e;
}

// renew replaces the children of an element, but keeps those that are equal: otherwise a click or a selection would be lost if
// the nodes change meanwhile. So what a child does depends only on its attributes.
function renew(parent, children) {
	children.forEach((child, i) => {
		const old = parent.children[i];
		if (!old) parent.append(child);
		else if (!old.isEqualNode(child)) old.replaceWith(child);
	});
	while (parent.children.length > children.length) parent.lastElementChild.remove();
}

// setText sets a text. A screen reader reads it again only if it has changed.
function setText(e, text) {
	if (e.textContent !== text) e.textContent = text;
}

// focusAgain gives the focus to what has taken the place of an element, without scrolling to it.
const focusAgain = (e) => e?.focus({ preventScroll: true });

// The kinds of cards, the worst first, with a symbol, so that nobody needs the colours.
const kinds = {
	unhealthy: { symbol: "×" },
	missing: { symbol: "?" },
	degraded: { symbol: "!" },
	cordoned: { symbol: "–" },
	unknown: { symbol: "·" }, // the node does not answer
	healthy: { symbol: "" }, // and free
	unsure: { symbol: "" }, // healthy, and its holder is not known
	used: { symbol: "" }, // healthy, and in use
};

function kindOf(node, d) {
	if (node.error) return "unknown";
	if (d.reasons.includes("missing")) return "missing";
	if (d.cordon) return "cordoned";
	if (d.health === "healthy") return d.holder === "?" ? "unsure" : d.holder ? "used" : "healthy";
	return d.health === "degraded" ? "degraded" : "unhealthy";
}

// cellsOf returns what the grid shows of a node: a node that has never answered is shown, too, and its details say why.
const cellsOf = (node) => (node.error && !node.devices.length ? [{ id: "", card: "", reasons: [], holder: "" }] : node.devices);

const nodes = new Map(); // key: {node, block, text}
let kubectl = []; // the beginning of commands: of kubectl, and of the plugin
let only = ""; // the kind that is shown; "": all
let chosen = null; // {key, id} of the card whose details are shown
let allRows = false; // of what needs attention
const mostRows = 6;

// ---- following the nodes

let source = null; // of events, while the page is shown

function follow() {
	source?.close();
	source = null;
	if (document.hidden) return;
	source = new EventSource("events");
	source.onopen = () => live("live", true);
	source.onerror = () => live("connection lost: is kubectl accelerator ui still running?", false);
	source.onmessage = (message) => update(JSON.parse(message.data));
}

function live(text, good) {
	setText($("live"), text);
	$("live").className = good ? "good" : "bad";
	document.body.classList.toggle("stale", !good);
}

function update(change) {
	$("cluster").textContent = change.cluster;
	document.title = change.cluster ? "FPGA cards · " + change.cluster : "FPGA cards";
	$("trouble").hidden = !change.trouble;
	setText($("trouble"), change.trouble && "The list of nodes may be old. " + change.trouble);
	kubectl = change.kubectl;
	if (change.all) {
		const now = new Set(change.nodes.map((n) => n.key));
		change.gone = [...nodes.keys()].filter((key) => !now.has(key));
	}
	let order = false;
	for (const key of change.gone) {
		nodes.get(key)?.block.remove();
		nodes.delete(key);
	}
	for (const node of change.nodes) {
		const entry = nodes.get(node.key) ?? { block: el("div", { class: "node" }) };
		order ||= !nodes.has(node.key);
		entry.node = node;
		nodes.set(node.key, entry);
		drawNode(entry);
	}
	if (order) {
		const focused = document.activeElement; // a block that moves loses the focus
		const sorted = [...nodes.values()].sort((a, b) => collator.compare(a.node.node, b.node.node) || collator.compare(a.node.pod, b.node.pod));
		$("nodes").append(...sorted.map((e) => e.block));
		$("nodes").classList.toggle("dense", sorted.length > 60);
		focusAgain(focused);
	}
	drawSummary();
	drawAttention();
	filter();
	if (chosen && (change.nodes.some((n) => n.key === chosen.key) || change.gone.includes(chosen.key))) drawDetails();
}

// ---- the grid

function describe(node, d, kind) {
	const state = kind === "unknown" ? "node does not answer" : d.health === "healthy" ? "healthy" : kind;
	const holder = d.holder === "?" ? "holder not known" : d.holder && "in use by " + d.holder;
	return [node.node, d.id, state, ...d.reasons, holder].filter(Boolean).join(", ");
}

function drawNode(entry) {
	const { node, block } = entry;
	const focused = document.activeElement?.closest?.(".node") === block ? document.activeElement.dataset.id : null;
	let card = "";
	const cells = cellsOf(node).map((d) => {
		const kind = kindOf(node, d);
		const text = describe(node, d, kind);
		const cell = el("button", {
			class: "cell " + kind + (card && card !== d.card ? " next" : ""), "data-kind": kind, "data-id": d.id, tabindex: -1, title: text, "aria-label": text,
			onclick: (e) => show(node.key, d.id, e.currentTarget),
		}, el("span", { "aria-hidden": "true" }, kinds[kind].symbol));
		card = d.card;
		return cell;
	});
	const note = node.error ? "does not answer" : node.asked ? "…" : cells.length ? "" : "no cards";
	block.className = "node" + (node.error ? " silent" : "");
	block.title = node.error ? node.node + ": " + node.error : node.node;
	if (!block.firstChild) block.append(el("span", { class: "name" }, node.node), el("span", { class: "cells" }));
	renew(block.lastChild, note ? [...cells, el("span", { class: "note" }, note)] : cells);
	entry.text = [node.node, node.error, node.pod, ...node.devices.map((d) => describe(node, d, kindOf(node, d)))].join("\n").toLowerCase();
	if (focused) focusAgain(cellOf(node.key, focused));
}

function filter() {
	const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
	let shown = 0;
	for (const { block, node, text } of nodes.values()) {
		const match = words.every((w) => text.includes(w)) && (!only || node.devices.some((d) => kindOf(node, d) === only) || (only === "unknown" && node.error !== ""));
		block.hidden = !match;
		shown += match;
	}
	$("nodes").classList.toggle("some", only !== "");
	for (const kind of Object.keys(kinds)) $("nodes").classList.toggle("only-" + kind, kind === only);
	$("nodes-title").replaceChildren("Nodes ", el("span", { class: "count" }, shown < nodes.size ? `${shown} of ${nodes.size}` : nodes.size));
	$("none").hidden = shown > 0;
	if (!$("nodes").querySelector('.cell[tabindex="0"]')?.checkVisibility()) rove($("nodes").querySelector(".node:not([hidden]) .cell"));
}

const visible = () => [...$("nodes").querySelectorAll(".node:not([hidden]) .cell")];

// rove makes a cell the one that the Tab key reaches.
function rove(cell) {
	for (const old of $("nodes").querySelectorAll('.cell[tabindex="0"]')) old.tabIndex = -1;
	if (cell) cell.tabIndex = 0;
}

// point says what a cell is, because many nodes are shown without their names.
function point(event) {
	const at = event.target.closest(".cell, .node");
	if (at) $("pointed").textContent = at.title;
}

function moveFocus(event) {
	const cell = event.target.closest(".cell");
	const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity }[event.key];
	if (!cell || !step || event.ctrlKey || event.altKey || event.metaKey) return;
	event.preventDefault();
	const cells = visible();
	let i = cells.indexOf(cell);
	if (event.key === "ArrowUp" || event.key === "ArrowDown") {
		const from = cell.getBoundingClientRect();
		let best, row;
		for (let j = i + step; cells[j]; j += step) { // the nearest cell in the next row
			const to = cells[j].getBoundingClientRect();
			if (Math.abs(to.top - from.top) < from.height / 2) continue;
			row ??= to.top;
			if (Math.abs(to.top - row) > from.height / 2) break;
			if (best === undefined || Math.abs(to.left - from.left) < Math.abs(cells[best].getBoundingClientRect().left - from.left)) best = j;
		}
		i = best ?? i;
	} else {
		i = Math.max(0, Math.min(cells.length - 1, i + step));
	}
	rove(cells[i]);
	cells[i].focus();
}

// ---- summary and what needs attention

function drawSummary() {
	const counts = Object.fromEntries(Object.keys(kinds).map((k) => [k, 0]));
	let silent = 0, asked = 0;
	for (const { node } of nodes.values()) {
		silent += node.error !== "";
		asked += node.asked;
		for (const d of node.devices) counts[kindOf(node, d)]++;
	}
	const tile = (kind, n, text, title) => el("li", {}, el("button", {
		class: "tile " + kind, "aria-pressed": String(only === kind), disabled: n === 0 && only !== kind ? "" : undefined, "data-kind": kind, title,
		onclick: () => { only = only === kind ? "" : kind; drawSummary(); drawAttention(); filter(); $("summary").querySelector(`[data-kind="${kind}"]`).focus(); },
	}, el("span", { class: "mark cell " + kind, "aria-hidden": "true" }, kinds[kind].symbol), el("b", {}, n.toLocaleString("en")), " " + text));
	const focused = $("summary").contains(document.activeElement) ? document.activeElement.dataset.kind : "";
	renew($("summary"), [
		tile("unhealthy", counts.unhealthy, "unhealthy", "devices that are unhealthy, without those that are missing or cordoned"), tile("missing", counts.missing, "missing"), tile("degraded", counts.degraded, "degraded"),
		tile("cordoned", counts.cordoned, "cordoned"), tile("unknown", silent, silent === 1 ? "node does not answer" : "nodes do not answer"),
		tile("used", counts.used, "healthy, in use"), counts.unsure || only === "unsure" ? tile("unsure", counts.unsure, "healthy, use not known") : [],
		tile("healthy", counts.healthy, "healthy, free"),
	].flat());
	if (focused) focusAgain($("summary").querySelector(`[data-kind="${focused}"]`));
	if (asked) live(`waiting for ${asked} of ${nodes.size} nodes`, true);
	else if ($("live").className === "good") live("live", true);
}

function drawAttention() {
	const found = [];
	const silent = new Map(); // nodes by error
	for (const { node } of nodes.values()) {
		if (node.error) silent.set(node.error, [...(silent.get(node.error) ?? []), node]);
		for (const d of node.devices) {
			const kind = kindOf(node, d);
			if (d.fault && kind !== "unknown") found.push({ kind, node, d, rank: (d.holder && d.holder !== "?" ? 0 : 1) });
			else if (kind === "degraded") found.push({ kind, node, d, rank: 3 });
		}
	}
	found.sort((a, b) => a.rank - b.rank || collator.compare(a.node.node, b.node.node) || collator.compare(a.d.id, b.d.id));
	const shown = (kind) => !["unhealthy", "missing", "degraded", "unknown"].includes(only) || kind === only;
	const line = (kind, where, why, text, who, changes, at) => el(at ? "button" : "div", at ? {
		class: "item", "data-at": at.key + " " + at.id, "aria-label": [at.label, text].filter(Boolean).join(", "), onclick: (e) => show(at.key, at.id, e.currentTarget),
	} : { class: "item" },
		el("span", { class: "mark cell " + kind, "aria-hidden": "true" }, kinds[kind].symbol),
		el("span", { class: "where" }, where), el("span", { class: "why" }, why), el("span", { class: "who" }, who), el("span", { class: "who", title: changes && "changes of the health of the card" }, changes),
		text && el("span", { class: "meaning" }, text));
	const items = found.filter((f) => shown(f.kind)).map(({ kind, node, d, rank }) => [rank, () => line(kind, [node.node, " ", el("span", { class: "id" }, d.id)],
		d.reasons.join(", ") || d.health, d.reasons.map((r) => explain(r).text).find(Boolean), d.holder === "?" ? "" : d.holder,
		d.changes > 2 && `${d.changes}${d.more ? "+" : ""} changes in 7 days`, { key: node.key, id: d.id, label: describe(node, d, kind) })]);
	for (const [error, list] of shown("unknown") ? silent : []) {
		const [first, ...others] = list.sort((a, b) => collator.compare(a.node, b.node));
		items.push([2, others.length === 0 ? () => line("unknown", first.node || first.pod, error, "", "", "", { key: first.key, id: cellsOf(first)[0].id, label: `${first.node}, node does not answer, ${error}` })
			: () => line("unknown", `${list.length} nodes`, error, "", list.slice(0, 3).map((n) => n.node).join(", ") + (list.length > 3 ? ` and ${list.length - 3} more` : ""))]);
	}
	items.sort((a, b) => a[0] - b[0]);
	const waiting = [...nodes.values()].some((e) => e.node.asked) || nodes.size === 0;
	const at = document.activeElement?.dataset.at;
	$("attention-title").replaceChildren("Needs attention ", el("span", { class: "count" }, items.length || ""));
	const nothing = () => el("li", { class: "fine" }, waiting ? "Waiting for the nodes." : "Nothing. No card has a fault.");
	renew($("attention"), items.length ? (allRows ? items : items.slice(0, mostRows)).map(([, draw]) => el("li", {}, draw())) : [nothing()]);
	$("more").hidden = items.length <= mostRows;
	$("more").textContent = allRows ? "Show fewer" : `Show all ${items.length}`;
	if (at) focusAgain($("attention").querySelector(`[data-at="${CSS.escape(at)}"]`));
}

// ---- the details of a card

const explained = new Map(); // reason: {text, rows: a promise of rows of docs/health.md}

// ask returns an answer, or null. It tries again, because a browser ends requests when a network comes or goes. A node could
// answer an object with a toString that is no function, and then no text can have it.
async function ask(path) {
	for (let i = 0; i < 5; i++) {
		try {
			const answer = await fetch(path);
			return answer.ok ? JSON.parse(await answer.text(), (key, value) => (key in Object.prototype ? undefined : value)) : null;
		} catch {
			await new Promise((done) => setTimeout(done, 200));
		}
	}
	return null;
}

// explain returns what is known of a reason. What needs attention is drawn again when its text is known.
function explain(reason) {
	if (!explained.has(reason)) {
		const entry = { text: "", rows: ask("explain?reason=" + encodeURIComponent(reason)) };
		explained.set(reason, entry);
		entry.rows.then((rows) => {
			if (rows?.length) entry.text = sentence(rows[0].Meaning.replace(/: below$/, ""));
			drawAttention();
		});
	}
	return explained.get(reason);
}

let opener = ""; // the row of what needs attention that gets the focus back; "": the card does
let drawn = 0; // how often details were drawn

function show(key, id, from) {
	opener = from.dataset.at ?? "";
	chosen = { key, id };
	drawDetails(true);
}

function hide() {
	if (!chosen) return;
	const { key, id } = chosen;
	chosen = null;
	$("details").hidden = true;
	document.body.classList.remove("detailed");
	mark();
	const row = opener && $("attention").querySelector(`[data-at="${CSS.escape(opener)}"]`);
	(row || cellOf(key, id))?.focus();
}

const cellOf = (key, id) => nodes.get(key)?.block.querySelector(`[data-id="${CSS.escape(id)}"]`);

function mark() {
	for (const old of document.querySelectorAll(".cell.chosen")) old.classList.remove("chosen");
	if (chosen) cellOf(chosen.key, chosen.id)?.classList.add("chosen");
}

async function drawDetails(opened) {
	const { key, id } = chosen;
	const turn = ++drawn;
	const node = nodes.get(key)?.node;
	const d = node && cellsOf(node).find((d) => d.id === id);
	const reasons = d?.reasons ?? [];
	const [found, ...meanings] = await Promise.all([id && ask("node?key=" + encodeURIComponent(key)), ...reasons.map((r) => explain(r).rows)]);
	if (turn !== drawn || !chosen) return; // another one was drawn, or they were closed, meanwhile
	const all = found?.devices ?? [];
	const full = all.find((f) => f.id === id) ?? {};
	const title = el("h2", { id: "details-title", tabindex: -1 }, (node?.node ?? key.split("/")[0]) + " ", el("span", { class: "id" }, id));
	const kind = d ? kindOf(node, d) : "missing";
	const parts = [
		el("div", { class: "row" }, title, el("button", { class: "plain close", onclick: hide, "aria-label": "Close the details" }, "×")),
		el("p", { class: "state" }, el("span", { class: "mark cell " + kind, "aria-hidden": "true" }, kinds[kind].symbol),
			!node ? "The plugin no longer runs on this node." : node.error ? "The node does not answer: " + node.error : !d ? "This node no longer lists the card." : d.health === "healthy" ? "healthy" : kind),
		node?.error && id && el("p", { class: "muted" }, "Below is what it has answered before."),
	];
	if (d) parts.push(...why(reasons, meanings), commands(node, d));
	if (!id) parts.push(node && facts(node, {}, {}));
	else if (d && found) parts.push(history(found.cards ?? [], d), list(node, all, id), facts(node, d, { ...full, at: found.at }));
	else if (d) parts.push(section("History", el("p", { class: "muted" }, "The details could not be loaded. Open them again.")));
	const open = new Set([...$("details").querySelectorAll("details[open] summary")].map((s) => s.textContent)); // they stay open
	const focused = $("details").contains(document.activeElement);
	renew($("details"), parts.filter(Boolean));
	for (const s of $("details").querySelectorAll("summary")) s.parentElement.open = open.has(s.textContent);
	if (focused && !$("details").contains(document.activeElement)) focusAgain($("details-title"));
	$("details").hidden = false;
	document.body.classList.add("detailed");
	mark();
	if (opened) $("details-title").focus();
}

const section = (title, ...children) => el("section", {}, el("h3", {}, title), children);

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.:!?]$/.test(text) ? "" : ".");

function why(reasons, meanings) {
	if (!reasons.length) return [];
	return [section("Why, and what to do", reasons.map((reason, i) => el("div", { class: "reason" }, el("code", {}, reason),
		(meanings[i] ?? []).map((m) => [
			el("p", {}, sentence(m.Meaning)), m.ReadFrom && el("p", { class: "muted" }, "Read from: " + m.ReadFrom),
			m.Places && el("p", { class: "muted" }, "Directories for card 3b:00.0:"), array(m.Places).map((dir) => el("p", { class: "muted" }, dir)),
			(m.Sections ?? []).map((text) => el("details", {}, el("summary", {}, text.split("\n", 1)[0]), el("pre", {}, text.slice(text.indexOf("\n") + 1).trim()))),
		]),
		!meanings[i]?.length && el("p", { class: "muted" }, "docs/health.md does not know this reason."))))];
}

function facts(node, d, full) {
	const join = (list) => array(list).join(", ");
	const rows = [
		["Used by", d.id && (d.holder === "?" ? "not known" : d.holder || "nobody")], ["Cordoned by", d.cordon], ["Missing since", full.missingSince && time(full.missingSince)],
		["Resource", d.id && (full.resource || "none")], ["Family", full.family], ["PCI ID", full.pciId], ["NUMA node", full.numaNode], ["AFU", full.afuId],
		...measured(full), ["Device nodes", join(full.deviceNodes)], ["Plugin", [node.version, node.api].filter(Boolean).join(", ")], ["Pod", node.pod], ["Remarks", join(node.notes)],
	];
	return section("Facts", el("dl", {}, rows.filter(([, v]) => v || v === 0).map(([name, v]) => el("div", {}, el("dt", {}, name), el("dd", {}, v)))));
}

// measured shows the summary of the sensors of a card. The node sends it with its other changes, at least every six minutes.
function measured(full) {
	const value = (name, unit) => {
		const s = array(full.sensors).find((s) => s?.chip === "" && s.sensor === name && typeof s.value === "number");
		return s && `${Math.round(s.value * 10) / 10} ${unit}` + (typeof s.max === "number" ? ` of ${s.max}` : "");
	};
	const die = value("die", "°C"), hottest = value("hottest", "°C"), power = value("board", "W");
	const temperatures = [die && `FPGA ${die}`, hottest && `hottest part ${hottest}`].filter(Boolean).join(", ");
	return [["Temperature", temperatures], ["Power", power], ["Sensors read", (temperatures || power) && time(full.at)]];
}

const array = (v) => (Array.isArray(v) ? v : []); // nodes may answer anything

const time = (text) => (Number.isNaN(Date.parse(text)) ? text : new Date(text).toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "short" }));

function history(cards, d) {
	const card = cards.find((c) => c.card === d.card);
	const turns = array(card?.recent).filter((t) => t?.time).reverse();
	if (!turns.length && !card?.healthChanges && !card?.removals) return section("History", el("p", { class: "muted" }, "The card has never changed."));
	const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;
	return section("History",
		el("p", {}, `${count(card.healthChanges, "change", "changes")} of health, ${count(card.removals, "removal", "removals")}. In the last 7 days: ${count(d.changes + (d.more ? "+" : ""), "change", "changes")}.`),
		turns.length > 0 && el("table", {}, el("thead", {}, el("tr", {}, ["Time", "Device", "Became", "Reason"].map((t) => el("th", { scope: "col" }, t)))),
			el("tbody", {}, turns.map((t) => el("tr", {}, el("td", { class: "time" }, time(t.time)), el("td", {}, t.device), el("td", {}, t.to), el("td", {}, t.reason))))));
}

// list shows what was advertised with the same resource.
function list(node, all, id) {
	const resource = all.find((f) => f.id === id)?.resource;
	const dra = node.api === "dra";
	if (!resource) return section(dra ? "ResourceSlices" : "List of the kubelet", el("p", { class: "muted" }, "The device is not offered."));
	return section(dra ? "Offered in the ResourceSlices" : "List that the kubelet received",
		el("p", { class: "muted" }, resource),
		el("table", {}, el("thead", {}, el("tr", {}, ["Device", dra ? "New pods" : "Health"].map((t) => el("th", { scope: "col" }, t)))),
			el("tbody", {}, all.filter((f) => f.resource === resource).map((f) => el("tr", { class: f.id === id && "this" }, el("td", {}, f.id),
				el("td", {}, f.health === "unhealthy" ? (dra ? "get it not" : "Unhealthy") : dra ? "can get it" : "Healthy"))))));
}

// commands shows commands to copy. A node chooses the names of its cards, so only a PCI address becomes part of one.
function commands(node, d) {
	const safe = [node.node, ...node.pod.split("/")].every((name) => /^[\w.-]+$/.test(name));
	if (!safe || !/^[0-9a-f:.]*$/.test(d.card)) return null;
	const [namespace, pod] = node.pod.split("/");
	const at = `${node.node} ${d.card}`;
	const lines = node.error ? [`${kubectl[0]} --namespace ${namespace} describe pod ${pod}`] : [];
	lines.push(`${kubectl[1]} logs ${node.node}` + (d.card && ` --device ${d.card}`));
	if (d.card) lines.push(`${kubectl[1]} ` + (d.cordon ? `uncordon ${at}` : `cordon ${at} --why "…"`), `${kubectl[1]} can-pull ${at}`);
	return section("Commands", lines.map((l) => el("pre", { class: "command" }, l)));
}

// ---- start

$("search").addEventListener("input", filter);
$("nodes").addEventListener("keydown", moveFocus);
$("nodes").addEventListener("focusin", (e) => e.target.matches(".cell") && (rove(e.target), point(e)));
$("nodes").addEventListener("mouseover", point);
$("more").addEventListener("click", () => { allRows = !allRows; drawAttention(); });
document.addEventListener("keydown", (e) => {
	if (e.key === "Escape") hide();
	if (e.key === "/" && document.activeElement !== $("search")) { e.preventDefault(); $("search").focus(); }
});
document.addEventListener("visibilitychange", follow);
follow();

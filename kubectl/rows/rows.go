package rows

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
)

// Row is a device or a card on a node. It has the keys that the node sends, plus node, namespace, pod, version and api.
// If a node has not answered, its only row has the key error instead.
type Row = map[string]any

// Devices returns the devices of all answers. It also returns the empty slots that are cordoned, with the health
// "absent". If unhealthy is true, it returns only devices that are not healthy, or that a rule taints. A tainted device
// has the key taintRules with the names of the rules.
func Devices(answers []fleet.Answer, rules []resourceapi.DeviceTaintRule, unhealthy bool) []Row {
	var all []Row
	for _, a := range answers {
		if a.Err != nil {
			all = append(all, of(a, nil))
		}
		for _, d := range a.State.Devices {
			r := of(a, d)
			taints(r, rules)
			if !unhealthy || r["health"] != "healthy" || r["taintRules"] != nil {
				all = append(all, r)
			}
		}
		for _, c := range a.State.Cordons {
			if isEmpty(answers, a.Node, text(c["device"])) {
				all = append(all, of(a, Row{"id": c["device"], "health": "absent", "reasons": []any{"cordoned"}, "holder": []any{}, "holderKnown": true, "cordon": c}))
			}
		}
	}
	return all
}

// isEmpty reports whether the slot of a cordoned card or port is empty: the node lists no device that the cordon
// applies to.
func isEmpty(answers []fleet.Answer, node, cordoned string) bool {
	return !slices.ContainsFunc(answers, func(a fleet.Answer) bool {
		return a.Node == node && slices.ContainsFunc(a.State.Devices, func(d Row) bool {
			c, _ := d["cordon"].(map[string]any) // in an IOMMU group, the cordon may name another function
			return d["id"] == cordoned || text(d["id"])+"-p0" == cordoned || strings.HasPrefix(text(d["id"]), cordoned+"-p") || c != nil && c["device"] == cordoned
		})
	})
}

// taints adds the rules that taint a device.
func taints(r Row, rules []resourceapi.DeviceTaintRule) {
	delete(r, "taintRules")
	var names []any
	for i := range rules {
		if r["api"] == "dra" && fleet.Tainted(&rules[i], text(r["node"]), text(r["id"])) {
			names = append(names, rules[i].Name)
		}
	}
	if names != nil {
		r["taintRules"] = names
	}
}

// Flaps returns the cards whose health has changed since a certain time. It also returns cards that were removed since
// then, or whose time of removal is not known. The cards with the most failures come first. In addition to the keys of
// the ledger, each row contains:
//
//   - failuresSince: the number of failures since then, that is, of changes to unhealthy
//   - moreFailures: true if there may have been more, because the ledger keeps only the newest changes
//   - changes, more: the same for all changes
//   - last: the time of the newest change or removal
//   - reasons: the reasons of the changes since then, the most frequent first
//   - health: the worst health that one of its devices has now
func Flaps(answers []fleet.Answer, since time.Time) []Row {
	var cards, failed []Row
	for _, a := range answers {
		if a.Err != nil {
			failed = append(failed, of(a, nil))
		}
		for _, c := range a.State.Cards {
			r := of(a, c)
			history(r, since)
			r["health"] = worst(a.State.Devices, text(c["card"]))
			if r["last"] != nil || number(c["removals"]) > 0 && text(c["lastRemoved"]) == "" {
				cards = append(cards, r)
			}
		}
	}
	slices.SortStableFunc(cards, func(a, b Row) int {
		return cmp.Or(cmp.Compare(number(b["failuresSince"]), number(a["failuresSince"])),
			cmp.Compare(number(b["changes"]), number(a["changes"])), cmp.Compare(number(b["removals"]), number(a["removals"])))
	})
	return append(cards, failed...)
}

// of returns a row of an answer with the keys of an object.
func of(a fleet.Answer, object map[string]any) Row {
	r := Row{}
	maps.Copy(r, object)
	delete(r, "error")
	r["node"], r["namespace"], r["pod"], r["version"], r["api"] = a.Node, a.Namespace, a.Pod, a.State.Version, a.State.API
	if a.Err != nil {
		r["error"] = fleet.Printable(a.Err.Error())
	}
	return r
}

// history adds what has happened to a card since a certain time. The node marks the changes of ports that count. An
// older node, which does not count failures, marks none. For a node like that, several changes at the same time count
// once.
func history(r Row, since time.Time) {
	var newest time.Time
	if at, err := time.Parse(time.RFC3339Nano, text(r["lastRemoved"])); err == nil && !at.Before(since) {
		newest = at
	}
	times, failures, reasons := map[time.Time]bool{}, map[time.Time]bool{}, map[string]int{}
	marked := r["failures"] != nil
	recent, _ := r["recent"].([]any)
	more := len(recent) > 0
	for i, v := range recent {
		change, _ := v.(map[string]any)
		at, err := time.Parse(time.RFC3339Nano, text(change["time"]))
		if err != nil || at.Before(since) {
			more = more && i > 0 // the list begins with the newest, so all others are older
			continue
		}
		if at.After(newest) {
			newest = at
		}
		if !marked || change["ofCard"] == true {
			times[at] = true
			if change["to"] == "unhealthy" {
				failures[at] = true
			}
		}
		if reason := text(change["reason"]); reason != "" {
			reasons[reason]++
		}
	}
	r["changes"] = int64(len(times))
	r["more"] = more && number(r["healthChanges"]) > int64(len(times))
	r["failuresSince"] = int64(len(failures))
	r["moreFailures"] = r["more"] == true && (!marked || number(r["failures"]) > int64(len(failures)))
	r["last"] = nil
	if !newest.IsZero() {
		r["last"] = newest.Format(time.RFC3339)
	}
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = name
	}
	r["reasons"] = list
}

// worst returns the worst health of a card's devices, or "absent" if the card doesn't have any.
func worst(devices []map[string]any, card string) string {
	order := []string{"absent", "healthy", "degraded", "unhealthy"}
	found := 0
	for _, d := range devices {
		if id := text(d["id"]); id == card || strings.HasPrefix(id, card+"-p") {
			found = max(found, slices.Index(order, text(d["health"])))
		}
	}
	return order[found]
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

// Notes returns remarks on the answers for people: which nodes sent incomplete answers, have several releases, or run
// an older version than mine.
func Notes(answers []fleet.Answer, mine string) []string {
	nodes := map[string][]string{}
	pods := map[string][]string{}
	for _, a := range answers {
		if a.Err != nil {
			continue
		}
		for _, p := range a.State.Problems {
			nodes[p] = append(nodes[p], a.Node)
		}
		if older(a.State.Version, mine) {
			note := fmt.Sprintf("version %s is older than this command, %s", a.State.Version, mine)
			nodes[note] = append(nodes[note], a.Node)
		}
		pods[a.Node] = append(pods[a.Node], a.Namespace+"/"+a.Pod)
	}
	for node, names := range pods {
		if len(names) > 1 {
			note := "several releases list the devices of a node, each its own: " + strings.Join(names, ", ")
			nodes[note] = append(nodes[note], node)
		}
	}
	var notes []string
	for _, note := range slices.Sorted(maps.Keys(nodes)) {
		notes = append(notes, names(nodes[note])+": "+note)
	}
	return notes
}

// Silent lists the nodes that have not answered as one text. It returns "" if all have answered.
func Silent(answers []fleet.Answer) string {
	var nodes []string
	for _, a := range answers {
		if a.Err != nil {
			nodes = append(nodes, cmp.Or(a.Node, a.Namespace+"/"+a.Pod))
		}
	}
	return names(nodes)
}

// names lists the first few names as one text.
func names(all []string) string {
	const most = 5
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

package prefer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"b-com.com/accelerator-device-plugin/server/prefer"
)

// random returns a board of up to most units, on cards of 1 to 4 ports and on up to three NUMA
// nodes, or none, with random arguments for Choose.
func random(r *rand.Rand, most int) question {
	units := 1 + r.IntN(most)
	names := r.Perm(units)
	if r.IntN(2) == 0 { // the units of a card follow one another
		slices.Sort(names)
	}
	nodes := []int{-1, 0, 1, 2}[r.IntN(2):][:1+r.IntN(3)]
	ill, held, must := r.Float64(), r.Float64()*0.7, max(0, r.Float64()-0.5)
	var q question
	for cards := 0; len(q.listed) < units; cards++ {
		node := nodes[r.IntN(len(nodes))]
		name := fmt.Sprint("card", cards)
		if r.IntN(8) == 0 {
			name = ""
		}
		for range min(1+r.IntN(4), units-len(q.listed)) {
			if r.IntN(50) == 0 {
				node = nodes[r.IntN(len(nodes))]
			}
			id := fmt.Sprint("u", names[len(q.listed)])
			q.listed = append(q.listed, prefer.Unit{ID: id, Card: name, NUMANode: node, Degraded: r.Float64() < ill})
			free := r.Float64() >= held
			if free {
				q.available = append(q.available, id)
			}
			if free && r.Float64() < must {
				q.must = append(q.must, id)
			}
		}
	}
	if r.IntN(4) == 0 { // the kubelet has an older list
		i := r.IntN(units)
		q.listed = slices.Delete(q.listed, i, i+1)
	}
	q.size = len(q.must) + r.IntN(len(q.available)-len(q.must)+1)
	shuffle(r, &q)
	return q
}

func shuffle(r *rand.Rand, q *question) {
	r.Shuffle(len(q.listed), func(i, j int) { q.listed[i], q.listed[j] = q.listed[j], q.listed[i] })
	r.Shuffle(len(q.available), func(i, j int) { q.available[i], q.available[j] = q.available[j], q.available[i] })
	r.Shuffle(len(q.must), func(i, j int) { q.must[i], q.must[j] = q.must[j], q.must[i] })
}

// big returns a board with this number of cards and of ports on each, on four NUMA nodes. A quarter
// of the units are held, and a few are degraded. Without ports it is a pool.
func big(cards, ports, size int) question {
	r := rand.New(rand.NewPCG(uint64(cards), uint64(ports)))
	q := question{size: size}
	for c := range cards {
		unit := prefer.Unit{Card: fmt.Sprintf("0000:%02x:00.0", c), NUMANode: c % 4}
		if ports == 0 {
			unit = prefer.Unit{NUMANode: -1}
		}
		for p := range max(1, ports) {
			unit.ID = fmt.Sprintf("%02x:00.0-p%d", c, p)
			unit.Degraded = r.IntN(16) == 0
			q.listed = append(q.listed, unit)
			if r.IntN(4) > 0 {
				q.available = append(q.available, unit.ID)
			}
		}
	}
	shuffle(r, &q)
	return q
}

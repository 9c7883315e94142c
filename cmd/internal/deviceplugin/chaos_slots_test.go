package deviceplugin_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// slotResource is the resource of AWS cards, also in modes that do not offer them by themselves.
const slotResource = "example.com/f2"

var slotRule = offer.Rule{Resource: slotResource, Match: offer.Match{Family: "aws"}}

// slotCard is an AWS card in the model.
type slotCard struct {
	address       string // of the application function
	plugged       bool
	removed       bool // the application function is missing
	unmanaged     bool // the management function is missing
	config, image string
}

// The ids of images, as in sysfs and at the beginning of a config space.
var images = map[string]string{"1d0f:f010:1d0f:1d51": "\x0f\x1d\x10\xf0", "10ee:7011:10ee:0007": "\xee\x10\x11\x70"}

const cleared, clearedConfig, deadConfig = "1d0f:9048:1d0f:1d51", "\x0f\x1d\x48\x90", "\xff\xff\xff\xff"

func newSlots() (all []*slotCard) {
	for i := range 2 {
		all = append(all, &slotCard{address: fmt.Sprintf("0000:%02x:00.0", 0x70+i)})
	}
	return all
}

func (s *slotCard) id() string { return strings.TrimPrefix(s.address, "0000:") }

// device returns the device of a card. ok is false if there is none.
func (s *slotCard) device() (d modelDevice, ok bool) {
	good := !s.removed && (s.config == images[s.image] || s.config == clearedConfig && s.image == cleared)
	return modelDevice{id: s.id(), resource: slotResource, kind: "f2", good: good}, s.plugged && !s.unmanaged
}

// turnSlot changes one AWS card at random.
func (m *model) turnSlot(random *rand.Rand) {
	s := m.awsCards[random.IntN(len(m.awsCards))]
	management := strings.TrimSuffix(s.address, "0") + "1"
	plug := func() {
		b, err := simnode.BoardNamed("aws-f2")
		m.d.do(err)
		m.d.do(m.d.node.PlugBoard(b, s.address))
		*s = slotCard{address: s.address, plugged: true, image: cleared, config: clearedConfig}
	}
	image := slices.Sorted(maps.Keys(images))[random.IntN(len(images))]
	switch turn := random.IntN(8); {
	case !s.plugged:
		plug()
	case turn == 0:
		m.d.do(m.d.node.Unplug(s.address))
		s.plugged = false
	case turn == 1:
		m.d.do(m.d.node.Unplug(s.address))
		plug()
	case s.unmanaged:
		m.d.do(m.d.node.Rescan(management, ""))
		s.unmanaged = false
	case turn == 2:
		m.d.do(m.d.node.Remove(management))
		s.unmanaged = true
	case s.removed:
		m.d.do(m.d.node.Rescan(s.address, image))
		s.removed, s.image, s.config = false, image, images[image]
	case turn == 3:
		s.config = deadConfig
		m.d.do(m.d.node.SetFile(filepath.Join(m.d.node.CardDir(s.address), "config"), s.config))
	case turn == 4:
		s.config = images[image]
		m.d.do(m.d.node.SetFile(filepath.Join(m.d.node.CardDir(s.address), "config"), s.config))
	case turn == 5:
		m.d.do(m.d.node.Remove(s.address))
		m.d.do(m.d.node.Rescan(s.address, image))
		s.image, s.config = image, images[image]
	default:
		m.d.do(m.d.node.Remove(s.address))
		s.removed = true
	}
}

// startSlot is start for an AWS card. A pod gets the files of the present application function, and no node.
func (m *model) startSlot(id, pod string) {
	m.d.t.Helper()
	m.settle("before a pod gets an AWS card")
	answer, err := m.d.kubelet.Allocate(m.d.t.Context(), slotResource, id)
	if err != nil {
		return
	}
	m.d.pods.Hold("default", pod, "main", slotResource, id)
	var files []string
	for _, f := range answer.Mounts {
		files = append(files, f.HostPath, f.ContainerPath)
	}
	var want []string
	for _, name := range []string{"resource0", "resource4", "resource4_wc"} {
		file := filepath.Join(m.d.node.CardDir("0000:"+id), name)
		want = append(want, file, file)
	}
	if !slices.Equal(files, want) || len(answer.Devices) > 0 {
		m.d.t.Errorf("pod %s got the files %v and the nodes %v of device %s, want the files %v", pod, files, answer.Devices, id, want)
	}
	m.held[id] = grant{pod: pod, resource: slotResource, kind: "f2"}
}

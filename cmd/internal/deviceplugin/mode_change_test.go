package deviceplugin_test

import (
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// The mode changes while a container has a device, which pod-resources never names. Until the container has ended,
// neither the device nor another one with the same node is allocated.
func TestNotGivenTwiceOverAModeChange(t *testing.T) {
	type unit struct{ mode, resource, id string }
	for _, test := range []struct {
		name        string
		given, next unit
	}{
		{"another name", unit{"single", testResource, "5e:00.0"}, unit{"af", afBb, "5e:00.0"}},
		{"back to the setting", unit{"af", afBb, "5e:00.0"}, unit{"", testResource, "5e:00.0"}},
		{"a card with the port", unit{"single", testResource, "3b:00.0-p1"}, unit{"region", regionA, "3b:00.0"}},
		{"a card of the port's id", unit{"af", afAa, "3b:00.0"}, unit{"regiondevel", regionA, "3b:00.0"}},
		{"a port of the card's id", unit{"region", regionA, "3b:00.0"}, unit{"single", testResource, "3b:00.0"}},
		{"another port of the card", unit{"region", regionA, "3b:00.0"}, unit{"af", afAa, "3b:00.0-p1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := prepareCluster(t, nil)
			c.plug(cardA, cardB)
			c.ask(test.given.mode)
			c.run()
			c.awaitLists("started", bothCards[test.given.mode])
			_, err := c.kubelet.Allocate(t.Context(), test.given.resource, test.given.id)
			c.do(err)
			c.ask(test.next.mode)
			c.awaitLine("mode.changed", "old:"+test.given.mode)
			again := func() bool {
				_, err = c.kubelet.Allocate(t.Context(), test.next.resource, test.next.id)
				return err == nil
			}
			for range 10 {
				if again() {
					t.Fatal("given out twice")
				}
				c.awaitAsked()
			}
			c.kubelet.End(test.given.resource, test.given.id)
			patient.Await(t, "the container has ended", func() error {
				again()
				return err
			})
		})
	}
}

// The settings that SIGHUP reads again apply in the mode of the annotation, and names of removed
// rules stay ours.
func TestHangupInTheModeOfTheAnnotation(t *testing.T) {
	t.Parallel()
	c := prepareCluster(t, nil)
	c.ask("af")
	c.plug(cardA, cardB)
	c.run()
	c.awaitLists("af", bothCards["af"])
	const lab = "example.com/lab"
	hangup := func(rules ...offer.Rule) {
		c.loader.Config.Resources = rules
		c.hangups <- syscall.SIGHUP
	}
	hangup(offer.Rule{Resource: lab, Match: offer.Match{PCIAddress: "5e:00.0"}})
	inLab := resourceLists{afAa: bothCards["af"][afAa], lab: {"5e:00.0": true}}
	c.awaitLists("a rule", inLab)
	c.hold("job", lab, "5e:00.0")
	hangup()
	c.awaitRefused("the rule is gone", lab, "5e:00.0", "replaced-in-use")
	c.ask("single")
	c.awaitLists("single", resourceLists{
		testResource: {"3b:00.0": true, "3b:00.0-p1": true}, lab: {"5e:00.0": false},
	})
	c.pods.Release("default", "job")
	c.awaitLists("the pod has ended", bothCards["single"])
}

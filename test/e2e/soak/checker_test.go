package soak_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// limits are short, so that the histories are short too.
var limits = soak.Limits{Sample: 0.25, Late: 3, Settle: 20, Publish: 5, Serve: 120, Away: 60, Recorded: 90, Quick: 15, Memory: 16, Files: 10}

// node is a node with three cards; c and d are the ports of one.
const node = `
0 port a 120:0
0 port b 120:1
0 port c 120:2
0 port c-p1 120:3
0.1 offers r=a,b,c,c-p1
`

// Each history is followed by its violations: RULE@TIME, and what the violation is about.
func TestChecker(t *testing.T) {
	for _, tt := range []struct{ name, history, want string }{
		// Rule shared.
		{"two pods with one port", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.1 on q 120:0
			2.2 on other 120:9
			2.4 on other 120:9
			2.6 on other 120:9
			9 off p`, "shared@2.4 p q a 120:0"},
		{"one after the other", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.1 on q 120:0
			2.15 off p
			9 off q`, ""},
		{"the kernel lists one for a little longer", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.1 on q 120:0
			2.35 off p
			9 off q`, ""},
		{"both for half a second", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.1 on q 120:0
			2.6 off p
			9 off q`, "shared@2.6 p q a 120:0"},
		{"one after the other, and no offers can be read", `
			1 runs p r=1
			1.1 on p 120:0
			1.2 unread
			2 runs q r=1
			2.1 on q 120:0
			2.15 off p
			9 off q`, ""},
		{"both, and no offers can be read", `
			1 runs p r=1
			1.1 on p 120:0
			1.2 unread
			2 runs q r=1
			2.1 on q 120:0
			9 off p`, "shared@9 p q a 120:0"},
		{"a short container", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.3 on q 120:0 since=2
			2.4 off q
			9 off p`, "shared@2.4 p q a 120:0"},
		{"a late sample, in which one had ended", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			4 on q 120:0 since=2.1
			4.01 off p seen=2
			9 off q`, ""},
		{"late samples after which one had ended", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.1 on q 120:0
			4 pod other Pending r=1
			4.5 off p seen=2.15
			9 off q`, ""},
		{"both for long, and nothing else happens", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.1 on q 120:0
			5 op 1 delete other
			6 op 2 delete other`, "shared@6 p q a 120:0"},
		{"two containers of a pod", `
			1 runs p r=1
			1.1 on p 120:0
			2.1 on p/second 120:0
			9 off p`, ""},
		{"two pods of the same name", `
			1 runs p r=1
			1.1 on p 120:0
			2.1 on p 120:1
			9 off p`, ""},
		{"may open it by the cgroup", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.1 on q 120:0 rules
			9 off p`, "shared@9 p q a 120:0"},
		{"a node that is no port", `
			1 runs p r=1
			1.1 on p 120:0,1:3
			2 runs q r=1
			2.1 on q 120:1,1:3
			9 off p`, ""},
		{"reported once", `
			1 runs p r=1
			1.1 on p 120:0
			2 runs q r=1
			2.1 on q 120:0
			3 on other 120:9
			4 on other 120:9
			5 on other 120:9
			9 off p`, "shared@3 p q a 120:0"},
		{"the number is given to another port", `
			1 runs p r=1
			1.1 on p 120:0
			2 port a -
			3 offers r=b,c,c-p1
			4 port d 120:0
			5 runs q r=1
			5.1 on q 120:0
			6 off p`, "shared@6 p q d 120:0"},

		// Rule unfit.
		{"broken before the pod was scheduled", `
			1 port a 120:0 broken
			9 runs p r=1
			9.1 on p 120:0`, "unfit@9.1 p a 120:0"},
		{"broken shortly before", `
			5 port a 120:0 broken
			9 runs p r=1
			9.1 on p 120:0`, ""},
		{"broken later", `
			5 runs p r=1
			9 port a 120:0 broken
			19 pod p Running r=1 scheduled
			20 on p 120:0`, ""},
		{"cordoned", `
			1 port a 120:0 cordoned
			9 runs p r=1
			9.1 on p 120:0`, "unfit@9.1 p a 120:0"},
		{"cordoned, and another plugin's", `
			1 port a 120:0 cordoned
			9 runs p other.example/card=1
			9.1 on p 120:0`, ""},
		{"excluded", `
			1 port a 120:0 excluded
			9 runs p r=1
			9.1 on p 120:0`, "unfit@9.1 p a 120:0"},
		{"it may be excluded", `
			1 port a 120:0 excluded unsure
			9 runs p r=1
			9.1 on p 120:0`, ""},
		{"one reason after the other", `
			1 port a 120:0 cordoned
			7 port a 120:0 broken
			9 runs p r=1
			9.1 on p 120:0`, "unfit@9.1 p a 120:0"},
		{"healed between", `
			1 port a 120:0 broken
			6 port a 120:0
			7 port a 120:0 broken
			9 runs p r=1
			9.1 on p 120:0`, ""},
		{"healed before the container began", `
			1 port a 120:0 broken
			9 pod p Pending r=1 scheduled
			9.5 port a 120:0 since=9.3
			10 on p 120:0`, ""},
		{"healed just before the container began", `
			1 port a 120:0 broken
			9 pod p Pending r=1 scheduled
			9.5 port a 120:0 since=9.3
			9.6 on p 120:0 since=9.4`, ""},
		{"healed after the container began", `
			1 port a 120:0 broken
			9 pod p Pending r=1 scheduled
			9.5 port a 120:0 since=9.4
			9.6 on p 120:0 since=9.2`, "unfit@9.6 p a 120:0"},
		{"broken during a fault", `
			1 port a 120:0 broken
			1.1 fault 1 kill daemon
			9 done 1
			30 runs p r=1
			30.1 on p 120:0`, ""},
		{"broken before a fault", `
			1 port a 120:0 broken
			7 fault 1 kill daemon
			9 done 1
			10 runs p r=1
			10.1 on p 120:0`, "unfit@10.1 p a 120:0"},
		{"broken long enough before and after a fault", `
			1 port a 120:0 broken
			2 fault 1 kill daemon
			9 done 1
			33.5 runs p r=1
			33.6 on p 120:0`, "unfit@33.6 p a 120:0"},
		{"two faults at once", `
			1 port a 120:0 broken
			2 fault 1 kill daemon
			3 fault 2 stop etcd
			9 done 1
			33 done 2
			35 runs p r=1
			35.1 on p 120:0`, ""},
		{"a container restarts", `
			1 runs p r=1
			1.1 on p 120:0
			2 port a 120:0 broken
			9 off p
			9.1 on p 120:0`, ""},
		{"a container restarts that should not have begun", `
			1 port a 120:0 broken
			9 runs p r=1
			9.1 on p 120:0
			10 off p
			10.1 on p 120:0`, "unfit@9.1 p a 120:0"},
		{"the scheduled pod is seen late", `
			1 port a 120:0 broken
			9.1 on p 120:0
			9.2 runs p r=1
			9.3 runs p r=1`, "unfit@9.2 p a 120:0"},
		{"broken before the late line of the pod", `
			5 port a 120:0 broken
			9.1 on p 120:0
			19.2 runs p r=1`, ""},
		{"pulled before the pod was scheduled", `
			1 port a -
			2 offers r=b,c,c-p1
			9 runs p r=1
			9.1 on p 120:0`, "unfit@9.1 p a 120:0"},
		{"pulled, and the number is that of a fit port", `
			1 port a -
			2 offers r=b,c,c-p1
			3 port d 120:0
			4 offers r=b,c,c-p1,d
			9 runs p r=1
			9.1 on p 120:0`, ""},
		{"pulled, and the number is that of a broken port", `
			1 port a -
			2 offers r=b,c,c-p1
			2.5 port d 120:0 broken
			9 runs p r=1
			9.1 on p 120:0`, "unfit@9.1 p d 120:0"},

		// Rule renamed.
		{"offered while a pod has it from another plugin", `
			1 runs p other.example/card=1
			1.1 on p 120:0
			2 offers r=a,b,c,c-p1
			2.5 on q 120:1
			3 offers r=b,c,c-p1`, "renamed@2.5 p a"},
		{"offered under two names", `
			1 offers r=a,b,c,c-p1 s=a
			2 offers r=b,c,c-p1 s=a`, "renamed@2 a"},
		{"under two names in one sample", `
			1 offers r=a,b,c,c-p1 s=a
			1.05 offers r=b,c,c-p1 s=a`, ""},
		{"under two names, and nothing else happens", `
			1 offers r=a,b,c,c-p1 s=a
			4 op 1 delete p
			5 op 2 delete p`, "renamed@5 a"},
		{"under two names, and nothing can be read", `
			1 offers r=a,b,c,c-p1 s=a
			2 unread
			5 op 1 delete p
			6 offers r=b,c,c-p1 s=a`, ""},
		{"under two names before and after nothing could be read", `
			1 offers r=a,b,c,c-p1 s=a
			2 unread
			6 offers r=a,b,c,c-p1 s=a
			7 offers r=b,c,c-p1 s=a`, "renamed@7 a"},
		{"under two names before nothing could be read, and in one sample after that", `
			1 offers r=a,b,c,c-p1 s=a
			1.1 unread
			6 offers r=a,b,c,c-p1 s=a
			6.05 offers r=b,c,c-p1 s=a`, ""},
		{"another name while a pod has it, and only the slices cannot be read", `
			1 runs p r=1
			1.1 on p 120:0
			2 unread
			5 unread r=b,c,c-p1 s=a
			6 unread r=b,c,c-p1 s=a
			6.5 on other 120:9`, "renamed@6.5 p a"},
		{"another name before the slices could not be read", `
			1 runs p r=1
			1.1 on p 120:0
			5 offers r=b,c,c-p1 claims=a
			5.1 unread r=b,c,c-p1
			8 unread r=b,c,c-p1
			9 offers r=a,b,c,c-p1`, ""},
		{"another name in one sample, after which it takes long", `
			1 runs p r=1
			1.1 on p 120:0
			5 offers r=b,c,c-p1 s=a
			5.5 on other 120:9
			5.6 offers r=a,b,c,c-p1 seen=4.9
			9 op 1 delete p`, ""},
		{"another name while a pod has it", `
			1 runs p r=1
			1.1 on p 120:0
			5 offers r=b,c,c-p1 s=a
			8.3 op 1 delete p`, "renamed@8.3 p a"},
		{"another name for a moment", `
			1 runs p r=1
			1.1 on p 120:0
			5 offers r=b,c,c-p1 s=a
			5.1 offers r=a,b,c,c-p1
			9 op 1 delete p`, ""},
		{"another name just after the end", `
			1 runs p r=1
			1.1 on p 120:0
			5 offers r=b,c,c-p1 s=a
			5.1 off p
			9 op 1 delete p`, ""},
		{"another name after the end, which is seen late", `
			1 runs p r=1
			1.1 on p 120:0
			5 offers r=b,c,c-p1 s=a
			5.5 offers r=b,c s=a,c-p1
			7 off p seen=4.9
			9 op 1 delete p`, ""},
		{"another name, and the pod is deleted by force", `
			1 runs p r=1
			1.1 on p 120:0
			4 pod p Gone
			5 offers r=b,c,c-p1 s=a
			9 op 1 delete p`, "renamed@9 p a"},
		{"the name that it wants", `
			1 offers r=b,c,c-p1 s=a
			2 runs p s=1
			2.1 on p 120:0
			9 op 1 delete p`, ""},
		{"its card is pulled, and returns with another number and name", `
			1 runs p r=1
			1.1 on p 120:0
			2 port a -
			2.2 offers r=b,c,c-p1
			3 port a 120:7
			5 offers r=b,c,c-p1 s=a
			9 op 1 delete p`, "renamed@9 p a"},
		{"its number is given to a card that is offered", `
			1 runs p r=1
			1.1 on p 120:0
			2 port a -
			2.2 offers r=b,c,c-p1
			3 port d 120:0
			5 offers r=b,c,c-p1,d
			9 op 1 delete p`, "renamed@9 p d 120:0"},
		{"its number is given to a card that is offered, and the driver is stopped", `
			1 runs p r=1
			1.1 on p 120:0
			2 port a -
			2.2 offers r=b,c,c-p1
			2.8 offers r=b,c,c-p1,d
			2.9 fault 1 stop driver
			3 port d 120:0
			9 on other 120:9
			9.1 offers r=b,c,c-p1,d
			10 done 1
			29.5 offers r=b,c,c-p1,d
			30.1 on other2 120:9
			30.2 offers r=b,c,c-p1,d
			31 on other3 120:9
			31.1 offers r=b,c,c-p1,d
			39 op 2 delete p`, "renamed@31.1 p d 120:0"},
		{"its number is given to a card that is offered until the driver is no longer stopped", `
			1 runs p r=1
			1.1 on p 120:0
			2 port a -
			2.2 offers r=b,c,c-p1
			2.8 offers r=b,c,c-p1,d
			2.9 fault 1 stop driver
			3 port d 120:0
			10 done 1
			11 offers r=b,c,c-p1
			99 op 2 delete p`, ""},
		{"its number is given to a card that is offered, and the scheduler is stopped", `
			1 runs p r=1
			1.1 on p 120:0
			2 port a -
			2.2 offers r=b,c,c-p1
			2.9 fault 1 stop kube-scheduler
			3 port d 120:0
			5 offers r=b,c,c-p1,d
			9 op 2 delete p`, "renamed@9 p d 120:0"},
		{"its number is given to a card that is not offered", `
			1 runs p r=1
			1.1 on p 120:0
			2 port a -
			2.2 offers r=b,c,c-p1
			3 port d 120:0
			99 op 1 delete p`, ""},
		{"two cards of a pod swap their numbers", `
			1 runs p r=2
			1.1 on p 120:0,120:1
			2 port a 120:1
			2.1 port b 120:0
			99 op 1 delete p`, ""},

		{"a pod that wants no port may have any", `
			1 runs p
			1.1 on p 120:0
			9 op 1 delete p`, ""},

		// Rule unserved.
		{"a pod waits for a free port", `
			1 pod p Pending r=1
			122 op 1 delete q`, "unserved@122 p a b c c-p1"},
		{"a pod waits for nearly too long", `
			1 pod p Pending r=1
			120.9 runs p r=1
			121 on p 120:0
			300 op 1 delete q`, ""},
		{"another pod's port is broken, so the scheduler finds none that is free", `
			1 runs q r=1
			1.1 on q 120:0
			2 port a 120:0 broken
			2 port c -
			2 port c-p1 -
			2.1 offers r=b
			3 pod p Pending r=1
			300 op 1 delete q`, ""},
		{"it may wait for ever", `
			1 pod p Pending r=1 mayFail
			300 op 1 delete q`, ""},
		{"it may wait for ever, and so does the next one", `
			1 pod p Pending r=1 mayFail
			2 pod q Pending r=4
			300 op 1 delete q`, ""},
		{"it is deleted", `
			1 pod p Pending r=1
			2 pod p Pending r=1 deleting
			300 op 1 delete q`, ""},
		{"its init container runs", `
			1 pod p Pending r=1 scheduled
			2 on p 120:0
			300 op 1 delete q`, ""},
		{"its init container has ended, and the next one does not begin", `
			1 pod p Pending r=1 scheduled
			1.1 on p 120:0
			1.2 pod p Pending r=1 scheduled
			2 off p
			300 op 1 delete q`, "unserved@300 p a b c c-p1"},
		{"the name is not offered", `
			1 pod p Pending s=1
			300 op 1 delete q`, ""},
		{"it wants more than there are", `
			1 pod p Pending r=5
			300 op 1 delete q`, ""},
		{"one port is held, and a pod waits for all others", `
			1 runs p r=1
			1.1 on p 120:0
			2 pod q Pending r=3
			300 op 1 delete q`, "unserved@300 q a b c c-p1"},
		{"all ports are held", `
			1 runs p r=4
			1.1 on p 120:0,120:1,120:2,120:3
			2 pod q Pending r=1
			300 op 1 delete q`, ""},
		{"held by a pod whose container is to be restarted", `
			1 runs p r=4
			1.1 on p 120:0,120:1,120:2,120:3
			2 off p
			3 pod q Pending r=1
			300 op 1 delete q`, ""},
		{"held by a container of a pod that is gone", `
			1 runs p r=4
			1.1 on p 120:0,120:1,120:2,120:3
			2 pod p Gone
			3 pod q Pending r=1
			300 op 1 delete q`, ""},
		{"no longer held", `
			1 runs p r=4
			1.1 on p 120:0,120:1,120:2,120:3
			2 pod p Succeeded
			2.1 off p
			3 pod q Pending r=1
			300 op 1 delete q`, "unserved@300 q a b c c-p1"},
		{"held by a pod whose containers were never seen", `
			1 runs p r=4
			3 pod q Pending r=1
			300 op 1 delete q`, ""},
		{"several pods wait for more than there is", `
			1 pod p Pending r=3
			3 pod q Pending r=2
			300 op 1 delete q`, ""},
		{"several pods wait", `
			1 pod p Pending r=3
			3 pod q Pending r=1
			300 op 1 delete q`, "unserved@300 p a b c c-p1, unserved@300 q a b c c-p1"},
		{"not enough for a moment", `
			1 pod p Pending r=1
			60 offers s=a,b,c,c-p1
			60.5 offers r=a,b,c,c-p1
			180 op 1 delete q`, ""},
		{"faults stop the clock", `
			1 pod p Pending r=1
			2 fault 1 kill daemon
			50 done 1
			188 op 1 delete q
			190 op 2 delete q`, "unserved@190 p a b c c-p1"},
		{"what cannot be read stops the clock", `
			1 pod p Pending r=1
			2 unread
			50 offers r=a,b,c,c-p1
			168 op 1 delete q
			170 op 2 delete q`, "unserved@170 p a b c c-p1"},
		{"the slices cannot be read", `
			1 pod p Pending r=1
			2 unread r=a,b,c,c-p1
			500 op 1 delete q`, ""},
		{"nothing can be read", `
			1 pod p Pending r=1
			2 unread
			500 op 1 delete q`, ""},
		{"a claim may need a whole card", `
			1 offers claims=c,c-p1 r=a,b
			2 pod p Pending claims=1
			2.1 pod q Pending claims=1
			300 op 1 delete q`, ""},
		{"a claim, and the whole card is held", `
			1 offers claims=c,c-p1 r=a,b
			2 runs p claims=1
			2.1 on p 120:2,120:3
			3 pod q Pending claims=1
			300 op 1 delete q`, ""},
		{"a claim", `
			1 offers claims=c,c-p1 r=a,b
			2 pod p Pending claims=1
			300 op 1 delete q`, "unserved@300 p c c-p1"},
		{"a pod waits in a quiet time", `
			1 pod p Pending r=1
			40 quiet waiting=p
			300 op 1 delete q`, "unserved@40 p a b c c-p1"},
		{"a pod waits in a quiet time since shortly before", `
			1 offers s=a,b,c,c-p1
			2 pod p Pending r=1
			30 offers r=a,b,c,c-p1
			40 quiet waiting=p`, ""},
		{"a pod waited in a quiet time, and is deleted", `
			1 pod p Pending r=1
			33 pod p Pending r=1 deleting
			33.1 pod p Gone
			40 quiet waiting=p`, "unserved@40 p a b c c-p1"},
		{"a pod waited before a quiet time", `
			1 pod p Pending r=1
			30 offers s=a,b,c,c-p1
			32 pod p Gone
			70 quiet waiting=p`, ""},
		{"a pod waits rightly in a quiet time", `
			1 pod p Pending s=1
			40 quiet waiting=p`, ""},

		// Rule lost.
		{"one is not offered while pods run, wait and are scheduled", `
			1 runs p r=1
			1.1 on p 120:0
			2 offers r=a,c,c-p1
			3 pod other Pending s=1
			50 pod q Pending r=1 scheduled
			63 op 1 delete q`, "lost@63 b"},
		{"offered under no name", `
			1 offers r=b,c,c-p1
			60 op 1 delete q
			62 op 1 delete q`, "lost@62 a"},
		{"offered under no name, and recorded", `
			1 offers r=b,c,c-p1 recorded=a
			62 op 1 delete q
			90 op 2 delete q
			92 op 3 delete q`, "lost@92 a"},
		{"recorded until the kubelet writes again", `
			1 offers r=b,c,c-p1 recorded=a
			50 offers r=b,c,c-p1
			109 op 1 delete q
			111 op 2 delete q`, "lost@111 a"},
		{"offered under no name while a pod without ports runs", `
			1 runs p other.example/plain=1
			1.1 on p -
			2 offers r=b,c,c-p1
			40 offers r=b,c,c-p1 s=
			62 op 1 delete q
			63 op 2 delete q`, "lost@63 a"},
		{"offered again", `
			1 offers r=b,c,c-p1
			60 offers r=a,b,c,c-p1
			100 op 1 delete q`, ""},
		{"nothing is offered", `
			1 offers
			100 op 1 delete q
			130 quiet`, ""},
		{"offered under no name, broken", `
			0.5 port a 120:0 broken
			1 offers r=b,c,c-p1
			100 op 1 delete q`, ""},
		{"offered under no name, and it may be excluded", `
			0.5 port a 120:0 unsure
			1 offers r=b,c,c-p1
			100 op 1 delete q`, ""},
		{"offered under no name, pulled", `
			0.5 port a -
			1 offers r=b,c,c-p1
			100 op 1 delete q`, ""},
		{"offered under no name, held", `
			0.5 runs p r=1
			0.6 on p 120:0
			1 offers r=b,c,c-p1
			100 op 1 delete q`, ""},
		{"offered under no name, held by a pod that is gone, and its number has changed", `
			0.2 runs p r=1
			0.3 on p 120:0
			0.4 pod p Gone
			0.5 port a -
			0.6 port a 120:7
			1 offers r=b,c,c-p1
			100 op 1 delete q`, ""},
		{"offered under no name, held by a pod that waits for its next container", `
			0.5 runs p r=1
			0.6 on p 120:0
			0.7 off p
			1 offers r=b,c,c-p1
			100 op 1 delete q`, ""},
		{"offered under no name, and its number is held", `
			0.2 runs p r=1
			0.3 on p 120:0
			0.4 port a -
			0.6 port d 120:0
			1 offers r=b,c,c-p1
			100 op 1 delete q`, ""},
		{"the other port of the card is held", `
			0.5 runs p r=1
			0.6 on p 120:2
			1 offers r=a,b,c
			100 op 1 delete q`, ""},
		{"the other port of the card is broken", `
			0.5 port c-p1 120:3 broken
			1 offers r=a,b
			100 op 1 delete q`, ""},
		{"offered under no name, and a pod is stuck that may have it", `
			0.5 pod p Pending s=1 scheduled
			1 offers r=b,c,c-p1
			30 offers r=b,c
			100 op 1 delete q`, ""},
		{"offered under no name during a fault", `
			1 fault 1 upgrade
			1.5 offers r=b,c,c-p1
			100 done 1
			179 op 2 delete q
			181 op 3 delete q`, "lost@181 a"},
		{"offered under no name after it was held", `
			1 runs p r=1
			1.1 on p 120:0
			2 offers r=b,c,c-p1
			50 pod p Succeeded
			50.1 off p
			110 op 2 delete q
			111 op 3 delete q`, "lost@111 a"},

		{"offered under no name in a quiet time", `
			1 offers r=b,c,c-p1
			5 fault 1 kill daemon
			20 done 1
			50 quiet
			150 op 2 delete q`, "lost@50 a"},
		{"offered under no name since shortly before the end of a quiet time", `
			5 fault 1 kill daemon
			6 done 1
			36 offers r=b,c,c-p1
			50 quiet
			60 offers r=a,b,c,c-p1`, ""},

		// The rules of quiet times.
		{"quiet", `
			40 quiet memory=daemon:20,driver:30 files=daemon:20
			80 quiet memory=daemon:36,driver:1 files=daemon:30`, ""},
		{"not agreed", `
			40 quiet differ=slices`, "quiet@40 slices"},
		{"left over", `
			40 quiet left=/run/x.sock,lock`, "left@40 /run/x.sock lock"},
		{"grown", `
			40 quiet memory=daemon:20,driver:30 files=daemon:20
			80 quiet memory=daemon:37,driver:1 files=daemon:31
			120 quiet memory=daemon:38,driver:1 files=daemon:32`, "grown@80 daemon, grown@80 daemon"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := soak.NewChecker(limits)
			var got []string
			for _, line := range history(t, node+tt.history) {
				for _, wrong := range c.Add(line) {
					got = append(got, fmt.Sprintf("%s@%v %s", wrong.Rule, line.At, strings.Join(wrong.About, " ")))
				}
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	c := soak.NewChecker(limits)
	for _, line := range history(t, node+`
		1 pod p Pending r=1
		2.5 pod p Running r=1
		2.6 on p 120:0
		3 fault 1 kill daemon
		4 pod q Pending r=1
		5 op 2 delete p
		9 done 2 refused by the API server
		10 done 1
		20 on q 120:0
		21 pod q Running r=1 scheduled
		40 quiet
		61 pod s Pending r=1
		67 pod s Running r=1
		70 op 3 delete s
		100 op 4 delete p`) {
		c.Add(line)
	}
	want := strings.TrimSpace(`
lasted       1:40, 1:13 of it undisturbed, 1 quiet times
operations   4: delete 3, kill 1
refused      1: delete 1
faults       1: kill daemon 1
pods         3 created, 3 served, 2 containers; 4 changes of the hardware, 1 of the offers
served       within 17.0 s (undisturbed: 6.0 s); while there were enough free ports within 17.0 s (6.0 s)
violations   1: shared 1`)
	if diff := cmp.Diff(want, c.Summary().String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

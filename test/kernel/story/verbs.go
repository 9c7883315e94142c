package story

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// synopses contains the verbs and their arguments. A word in capitals is a placeholder, and any other word stands for
// itself. a|b is a choice, brackets enclose optional parts, and … means that the preceding word can be repeated.
var synopses = map[string]string{
	// the daemon
	"start":  "[as SANDBOX] [--FLAG=VALUE …]",
	"end":    "",
	"signal": "STOP|CONT|HUP",
	"rule":   "RESOURCE KEY=VALUE …",

	// the kubelet and its pods
	"kubelet": "stop|start|restart",
	"hold":    "ID POD",
	"release": "POD",

	// the DRA driver's claims: ../../../dra/claims/kernelrig
	"claims":     "start|stop",
	"claim":      "prepare|unprepare|taint WORD [WORD] [WORD]",
	"claimfails": "prepare|unprepare|taint WORD [WORD] [WORD]",

	// the hardware
	"plug":    "CARD MODEL SLOT",
	"unplug":  "CARD",
	"cycle":   "N CARD MODEL SLOT",
	"measure": "N CARD MODEL SLOT",
	"random":  "N SEED",
	"costs":   "N CARD MODEL SLOT",
	"host":    "REQUEST …",

	// a container
	"open":           "NODE [own]",
	"close":          "NODE",
	"mknod":          "NODE",
	"reaches":        "NODE ID",
	"use":            "ADDRESS [cdev]",
	"refused":        "ADDRESS",
	"leave":          "ADDRESS",
	"container":      "IDS [NAME=VALUE …]",
	"containerfails": "IDS [NAME=VALUE …]",

	// commands
	"tool":        "ARGUMENT …",
	"toolfails":   "ARGUMENT …",
	"plugin":      "ARGUMENT …",
	"pluginfails": "ARGUMENT …",
	"begin":       "COMMAND tool|container|registry ARGUMENT …",
	"programming": "DEVICE",
	"locking":     "N",
	"kill":        "COMMAND [hook]",
	"ended":       "COMMAND ok|failed|killed",
	"says":        "TEXT …",
	"opened":      "[NODE …]",

	// the administrator
	"insmod":       "MODULE …",
	"rmmod":        "MODULE …",
	"bind":         "DEVICE [DRIVER]",
	"unbind":       "DEVICE [held]",
	"vfs":          "ADDRESS FUNCTIONS [held]",
	"inject":       "ADDRESS correctable|nonfatal|fatal",
	"remove":       "ADDRESS",
	"rescan":       "",
	"enable":       "ADDRESS",
	"clear":        "DEVICE",
	"write":        "PATH TEXT",
	"program":      "FME AFU [PORT]",
	"programmed":   "ok|E…",
	"release-port": "FME PORT",
	"assign-port":  "FME PORT",
	"bitstream":    "FILE AFU [INTERFACE] [cut=BYTES]",
	"forge":        "multicast|through ADDRESS",
	"settle":       "",

	// recordings: see Fixtures in docs/testing.md
	"heard":   "ACTION DEVICE [TEXT]",
	"record":  "RECORDING",
	"uevents": "[RECORDING]",

	// checks
	"expect":    "ARGUMENT …", // checked by ParseExpectation
	"withheld":  "ID",
	"quiet":     "DURATION",
	"log":       "EVENT [FIELD=VALUE …]",
	"nolog":     "EVENT [FIELD=VALUE …]",
	"given":     "ID [NODE …]",
	"cdi":       "ID [NODE …]",
	"exclusive": "NODE",
	"metric":    "SERIES VALUE|gone",
	"reads":     "PATH TEXT",
}

// kinds contains a regular expression for each placeholder that matches only certain arguments.
var kinds = map[string]string{
	"SANDBOX":      "root|pod|userns|deaf|blind",
	"N":            "[1-9][0-9]{0,2}|1000",
	"PORT":         "[0-3]",
	"FUNCTIONS":    "[0-4]",
	"AFU":          "[0-9a-f]{32}",
	"INTERFACE":    "[0-9a-f]{32}",
	"FILE":         "[^/]+",
	"RECORDING":    "[a-z0-9-]+",
	"VALUE|gone":   `-?[0-9.e+]+|gone`,
	"DURATION":     "[1-9][0-9]{0,3}ms|[1-9]s|[1-5][0-9]s|1m",
	"--FLAG=VALUE": "--[^=]+=.*",
	"KEY=VALUE":    "[^=]+=.+",
	"NAME=VALUE":   "[^=]+=.*",
	"FIELD=VALUE":  "[^=]+=.*",
	"cut=BYTES":    "cut=[1-9][0-9]{0,8}",
	"ok|E…":        "ok|E[A-Z0-9]+",
}

var groups = regexp.MustCompile(`\[[^]]*\]|\S+(?: …)?`)

// match returns an error if the arguments don't match the synopsis.
func match(synopsis string, args []string) error {
	rest := args
	complete := true
	for _, group := range groups.FindAllString(synopsis, -1) {
		inner, optional := strings.CutPrefix(strings.TrimSuffix(group, "]"), "[")
		inner, repeated := strings.CutSuffix(inner, " …")
		words := strings.Fields(inner)
		n := 0
		for ; (n == 0 || repeated) && allMatch(words, rest); n++ {
			rest = rest[len(words):]
		}
		complete = complete && (n > 0 || optional)
	}
	if complete && len(rest) == 0 {
		return nil
	}
	want := synopsis
	for _, word := range slices.Sorted(maps.Keys(kinds)) {
		if slices.Contains(strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(synopsis)), word) {
			want += "; " + word + " is " + kinds[word]
		}
	}
	return fmt.Errorf("found %q, want %s", strings.Join(args, " "), want)
}

// allMatch reports whether args begins with arguments that match the words, one for each word.
func allMatch(words, args []string) bool {
	if len(args) < len(words) {
		return false
	}
	for i, word := range words {
		kind, ok := kinds[word]
		if !ok && (strings.Contains(word, "|") || strings.ToLower(word) == word) {
			kind, ok = word, true
		}
		if ok && !regexp.MustCompile("^(?:"+kind+")$").MatchString(args[i]) {
			return false
		}
	}
	return true
}

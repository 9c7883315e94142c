package main

// stories are all stories, in the order in which they run.
var stories = []story{
	{"manifests", manifests},
	{"refused", refused},
	{"pod", podGetsOne},
	{"powers", powers},
	{"health", health},
	{"in-use", removedInUse},
	{"numbers", func(s *scene) { numberReused(s) }},
	{"numbers-cdi", func(s *scene) { numberReused(s, "config.cdiDir="+specs) }},
	{"kubelet", kubeletRestarts},
	{"daemon", daemonRestarts},
	{"in-place", restartInPlace},
	{"without-daemon", withoutDaemon},
	{"succeeded", succeeded},
	{"orphan", orphan},
	{"init", initContainers},
	{"failed", statusOfFailed},
	{"reboot", reboot},
	{"upgrade", upgrade},
	{"broken-upgrade", brokenUpgrade},
	{"helm-test", helmTest},
	{"annotation", annotation},
	{"cdi", cdi},
	{"programming", programming},
	{"programming-upgrade", programmingUpgrade},
	{"mapping", mappings},
	{"mapping-region", mappingRegion},
	{"mapping-denied", mappingDenied},
	{"mapping-webhook-down", mappingWebhookDown},
	{"mapping-rotation", mappingRotation},
	{"mapping-cert-manager", mappingCertManager},
	{"mapping-intel", mappingIntel},
	{"operator", operatorInstalls},
	{"operator-values", operatorValues},
	{"operator-drift", operatorDrift},
	{"operator-two", operatorTwo},
	{"operator-upgrade", operatorUpgrade},
	{"operator-intel", operatorIntel},
	{"events", kubernetesEvents},
	{"condition", func(s *scene) { condition(s) }},
	{"condition-policy", conditionPolicy},
	{"condition-taint", conditionTaint},
	{"credentials", credentials},
	{"pool", pool},
	{"settings", settingsInService},
	{"cordon", cordon},
	{"missing", missing},
	{"quarantine", quarantine},
	{"simulate", simulate},
	{"holders", holders},
	{"held-twice", heldTwice},
	{"init-holds", initHolds},
	{"kubelet-blind", kubeletBlind},
	{"naming-mode", namingMode},
	{"naming-name", namingName},
	{"naming-dra", namingDRA},
	{"families", func(s *scene) { families(s) }},
	{"families-cdi", func(s *scene) { families(s, "config.cdiDir="+specs) }},
	{"dra-claim", draClaim},
	{"dra-extended", draExtended},
	{"dra-extended-stale", draExtendedStale},
	{"dra-families", draFamilies},
	{"dra-program", draProgram},
	{"dra-hotplug", draHotplug},
	{"dra-break", draBreak},
	{"dra-pulled", draPulled},
	{"dra-kubelet", draKubelet},
	{"dra-killed", draKilled},
	{"dra-upgrade", draUpgrade},
	{"dra-admin", draAdmin},
	{"dra-policy", draPolicy},
	{"dra-test", draTest},
	{"dra-events", draEvents},
	{"dra-ledger", draLedger},
	{"dra-condition", func(s *scene) { condition(s, s.draValues()...) }},
	{"dra-costs", draCosts},
	{"dra-uninstall", draUninstall},
	{"dra-handover", draHandover},
	{"dra-handover-killed", draHandoverKilled},
	{"dra-handover-together", draHandoverTogether},
	{"dra-handover-rollback", draHandoverRollback},
}

// apart are the stories that use neither the release nor cards. They run while another story waits.
var apart = []string{"mapping-denied", "mapping-webhook-down", "mapping-rotation", "mapping-cert-manager", "mapping-intel"}

// The cards of all stories have the same AFU and interface, unless a story chooses others.
const (
	first, firstID   = "0000:01:00.0", "01:00.0"
	second, secondID = "0000:02:00.0", "02:00.0"
	third, thirdID   = "0000:03:00.0", "03:00.0"

	afuID       = "d8424dc4a4a3c413f89e433683f9040b"
	interfaceID = "ce48969398f05f33946d560708be108a"
	afResource  = "fpga.intel.com/af-ce4.d84.zkiWk5jwXzOUbVYHCL4QithCTcSko8QT-J5DNoP5BAs" // of afuID and interfaceID
)

package control

// Listen listens on a path.
var Listen = listen

// RunOn is [Run] with another listener.
var RunOn = run

// DialWith is [Dial] with another dial function.
var DialWith = dialWith

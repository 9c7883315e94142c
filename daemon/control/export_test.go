package control

var Listen = listen

// RunOn is like [Run], but with a different listener.
var RunOn = run

// DialWith is like [Dial], but with a different dial function.
var DialWith = dialWith

package control

// Listen exports listen.
var Listen = listen

// RunOn does the same as [Run], but with a different listener.
var RunOn = run

// DialWith does the same as [Dial], but with a different dial function.
var DialWith = dialWith

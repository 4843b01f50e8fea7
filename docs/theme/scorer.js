// What a search shows first: pages for people who use mulligan, and last the decisions of its makers.
const PLACES = [["tutorial/", 8], ["howto/", 8], ["concepts/", 8], ["project/decisions/", -40], ["proof/", -8]];
var Scorer = {
  score: ([docname, , , , score]) => {
    const place = PLACES.find(([folder]) => docname.startsWith(folder));
    return score + (place ? place[1] : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

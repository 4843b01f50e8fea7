// The shop's price service: busy at the first call for each item, and always so for one.

exports.price = (item, earlierFailures) => {
  if (item === "gold" || earlierFailures === 0) throw new Error(`no price for ${item}: busy`);
  return 10 * item.length;
};

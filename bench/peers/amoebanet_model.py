"""AmoebaNet-D and B in PyTorch, in tensorflow/tpu's layout: the same graph as models/amoebanet*.cpp builds.

A model is a list of layers that hand a pair (last output, the one before) to the next, as a pipeline over stages needs it.
With exact=False strided convolutions pad both sides alike: the same shapes and work without a pass that pads, as PyTorch users write it.
With exact=True padding lies where TensorFlow puts it, so that values can be compared.
"""
import torch
import torch.nn.functional as F
from torch import nn

STEM_CHANNELS = 32
NORMAL = {
    "d": ([("1x1", 1), ("max3", 1), (None, 1), ("1x7", 0), ("1x1", 0), ("1x7", 0), ("max3", 2), (None, 2), ("avg3", 1), ("1x1", 5)],
          [0, 3, 4, 6]),
    "b": ([("1x1", 1), ("max3", 1), (None, 1), ("sep3", 0), ("1x1", 1), ("sep3", 0), ("1x1", 2), (None, 2), ("avg3", 1), ("1x1", 5)],
          [0, 3, 4, 6]),
}
REDUCTION = {
    "d": ([("max2", 0), ("max3", 0), (None, 2), ("3x3", 1), ("1x7", 2), ("max3", 2), (None, 3), ("max2", 1), ("avg3", 2), ("1x1", 3)],
          [4, 5, 6]),
    "b": ([("max2", 0), ("max3", 0), (None, 2), ("3x3", 1), ("sep5", 2), ("max3", 2), (None, 3), ("sep3", 1), ("avg3", 4), ("1x1", 3)],
          [5, 6]),
}


def same_padding(size, window, stride):
    """Zeros before and after one axis, the smaller half before."""
    total = max(0, (-(-size // stride) - 1) * stride + window - size)
    return total // 2, total - total // 2


def paddings(x, window, stride):
    """(before, after) of the height and of the width of x."""
    return [same_padding(size, w, s) for size, w, s in zip(x.shape[2:], window, stride)]


class Convolution(nn.Conv2d):
    """Padding `same`, no bias."""

    def __init__(self, inputs, outputs, window=(1, 1), stride=(1, 1), groups=1, exact=True):
        super().__init__(inputs, outputs, window, stride, padding=[w // 2 for w in window], groups=groups, bias=False)
        self.exact = exact

    def forward(self, x):
        if not self.exact:
            return super().forward(x)
        (top, bottom), (left, right) = paddings(x, self.kernel_size, self.stride)
        if top == bottom and left == right:
            return F.conv2d(x, self.weight, None, self.stride, (top, left), 1, self.groups)
        return F.conv2d(F.pad(x, (left, right, top, bottom)), self.weight, None, self.stride, 0, 1, self.groups)


class Pool(nn.Module):
    """Padding takes no part. Where it lies after the image alone, PyTorch's ceil_mode does the same without a copy."""

    def __init__(self, kind, size, stride):
        super().__init__()
        self.kind, self.size, self.stride = kind, size, stride

    def forward(self, x):
        (top, bottom), (left, right) = paddings(x, (self.size,) * 2, (self.stride,) * 2)
        assert top in (bottom, 0) and left in (right, 0), "a pool that ceil_mode cannot express"
        arguments = {"padding": (top, left), "ceil_mode": (top, left) != (bottom, right)}
        if self.kind == "max":
            return F.max_pool2d(x, self.size, self.stride, **arguments)
        return F.avg_pool2d(x, self.size, self.stride, count_include_pad=False, **arguments)


def norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-5)


def relu_conv_norm(inputs, outputs, window=(1, 1), stride=(1, 1), exact=True):
    return nn.Sequential(nn.ReLU(), Convolution(inputs, outputs, window, stride, exact=exact), norm(outputs))


def bottleneck(inputs, outputs, windows, exact):
    inner = outputs // 4
    return nn.Sequential(relu_conv_norm(inputs, inner), *[relu_conv_norm(inner, inner, w, s, exact) for w, s in windows],
                         relu_conv_norm(inner, outputs))


def separable(inputs, outputs, size, stride, exact):
    def once(before, after, step):
        return nn.Sequential(nn.ReLU(), Convolution(before, before, (size,) * 2, (step,) * 2, before, exact), Convolution(before, after),
                             norm(after))
    return nn.Sequential(once(inputs, outputs, stride), once(outputs, outputs, 1))


def edge(kind, inputs, outputs, stride, exact):
    if kind is None:
        return nn.Identity()
    if kind == "1x1":
        return relu_conv_norm(inputs, outputs, stride=(stride, stride), exact=exact)
    if kind == "3x3":
        return bottleneck(inputs, outputs, [((3, 3), (stride, stride))], exact)
    if kind == "1x7":
        return bottleneck(inputs, outputs, [((1, 7), (1, stride)), ((7, 1), (stride, 1))], exact)
    if kind.startswith("sep"):
        return separable(inputs, outputs, int(kind[3]), stride, exact)
    pool = Pool(kind[:3], int(kind[3]), stride)
    return pool if inputs == outputs else nn.Sequential(pool, Convolution(inputs, outputs), norm(outputs))


class FactorizedReduction(nn.Module):
    """One half of the channels from the pixels at even places, the other from those at odd places."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.even, self.odd = (nn.Conv2d(inputs, outputs // 2, 1, 2, bias=False) for _ in range(2))
        self.norm = norm(outputs)

    def forward(self, x):
        even = self.even(x)
        height, width = even.shape[2:]
        odd = self.odd(F.pad(x[:, :, 1:, 1:], (0, 2 * width - x.shape[3], 0, 2 * height - x.shape[2])) if x.shape[2] % 2 else x[:, :, 1:, 1:])
        return self.norm(torch.cat([even, odd], 1))


class Cell(nn.Module):
    def __init__(self, genotype, last, before, filters, is_reduction, before_is_larger, takes_before, exact=True):
        super().__init__()
        edges, self.outputs = genotype
        self.states = [state for _, state in edges]
        self.last = relu_conv_norm(last, filters)
        channels = before if takes_before else filters
        if takes_before or (not before_is_larger and before == filters):
            self.before = nn.Identity()
        elif before_is_larger:
            self.before = nn.Sequential(nn.ReLU(), FactorizedReduction(before, filters))
        else:
            self.before = relu_conv_norm(before, filters)
        self.edges = nn.ModuleList(edge(kind, channels if state == 1 else filters, filters, 2 if is_reduction and state < 2 else 1, exact)
                                   for kind, state in edges)

    def forward(self, pair):
        last, before = pair
        states = [self.last(last), self.before(before)]
        for i in range(0, 10, 2):
            states.append(self.edges[i](states[self.states[i]]) + self.edges[i + 1](states[self.states[i + 1]]))
        return torch.cat([states[i] for i in self.outputs], 1), last


class Stem(nn.Sequential):
    def __init__(self, channels=3):
        super().__init__(nn.Conv2d(channels, STEM_CHANNELS, 3, 2, bias=False), norm(STEM_CHANNELS))

    def forward(self, image):
        y = super().forward(image)
        return y, y


class Head(nn.Module):
    def __init__(self, channels, classes, dropout=0.5):
        super().__init__()
        self.dropout, self.classifier = nn.Dropout(dropout), nn.Linear(channels, classes)

    def forward(self, pair):
        return self.classifier(self.dropout(F.relu(pair[0]).mean((2, 3))))


def amoebanet(genotype="d", layers=6, filters=64, classes=10, exact=False):
    """nn.Sequential of layers + 6 layers."""
    found = [Stem()]
    last = before = (STEM_CHANNELS, 0)                          # channels, times halved
    def cell(kind, filters, is_reduction):
        nonlocal last, before
        found.append(Cell(kind, last[0], before[0], filters, is_reduction, before[1] < last[1], len(found) == 1, exact))
        before, last = last, (len(kind[1]) * filters, last[1] + is_reduction)
    cell(REDUCTION[genotype], filters // 4, True)
    cell(REDUCTION[genotype], filters // 2, True)
    for i in range(layers):
        if i in (layers // 3, 2 * layers // 3):
            filters *= 2
            cell(REDUCTION[genotype], filters, True)
        cell(NORMAL[genotype], filters, False)
    return nn.Sequential(*found, Head(last[0], classes))

@cuda.jit("void(int64, int64, CPointer(float64), CPointer(float64), int64, int64, int64, int64, CPointer(float64), int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def kernel(n0, n1, x0, x1, s4, c5, c6, c7, x2, b9, c10, b11, b12, b13, b14, c15, s16, b17, c18, s19):
    # subtract: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s4 = int32(s4)
    c5 = int32(c5)
    c6 = int32(c6)
    c7 = int32(c7)
    b9 = int32(b9)
    c10 = int32(c10)
    b11 = int32(b11)
    b12 = int32(b12)
    b13 = int32(b13)
    b14 = int32(b14)
    c15 = int32(c15)
    s16 = int32(s16)
    b17 = int32(b17)
    c18 = int32(c18)
    s19 = int32(s19)
    v0 = x0[0]
    v7 = float64(0.0)
    v27 = x0[0]
    v35 = float64(0.0)
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        if b12 <= i0 < b13:
            if i1 < b9:
                p0 = int32(i0 * s4 + i1)
                v1 = x1[p0]
                v2 = x1[p0 + c5]
                v3 = x1[p0 + c6]
                v4 = v2 + v3
                v5 = x1[p0 + c7]
                v6 = v4 + v5
                v8 = v6 + v7
                v9 = libdevice.fma(-v0, v1, v8)
                x2[p0] = v9
            elif i1 < b11:
                p1 = int32(i0 * s4 + i1)
                v10 = x1[p1]
                v11 = x1[p1 + c5]
                v12 = x1[p1 + c6]
                v13 = v11 + v12
                v14 = x1[p1 + c7]
                v15 = v13 + v14
                v16 = x1[p1 + c10]
                v17 = v15 + v16
                v18 = libdevice.fma(-v0, v10, v17)
                x2[p1] = v18
            else:
                p2 = int32(i0 * s4 + i1)
                v19 = x1[p2]
                v20 = x1[p2 + c5]
                v21 = x1[p2 + c6]
                v22 = v20 + v21
                v23 = v22 + v7
                v24 = x1[p2 + c10]
                v25 = v23 + v24
                v26 = libdevice.fma(-v0, v19, v25)
                x2[p2] = v26
        else:
            v29 = i0
            v30 = (b14 <= v29) & (v29 < b13)
            v32 = int32(i0 + c15)
            v33 = v32 if v30 else int32(0)
            v37 = (b12 <= v29) & (v29 < b17)
            v38 = int32(i0 + c18)
            v39 = v38 if v37 else int32(0)
            if i1 < b9:
                p3 = int32(i0 * s4 + i1)
                v28 = x1[p3]
                p4 = int32(v33 * s16 + i1)
                v34 = x1[p4]
                v36 = cuda.selp(v30, v34, v35)
                p5 = int32(v39 * s19 + i1)
                v40 = x1[p5]
                v41 = cuda.selp(v37, v40, v35)
                v42 = v36 + v41
                v43 = x1[p3 + c7]
                v44 = v42 + v43
                v45 = v44 + v35
                v46 = libdevice.fma(-v27, v28, v45)
                x2[p3] = v46
            elif i1 < b11:
                p6 = int32(i0 * s4 + i1)
                v47 = x1[p6]
                p7 = int32(v33 * s16 + i1)
                v48 = x1[p7]
                v49 = cuda.selp(v30, v48, v35)
                p8 = int32(v39 * s19 + i1)
                v50 = x1[p8]
                v51 = cuda.selp(v37, v50, v35)
                v52 = v49 + v51
                v53 = x1[p6 + c7]
                v54 = v52 + v53
                v55 = x1[p6 + c10]
                v56 = v54 + v55
                v57 = libdevice.fma(-v27, v47, v56)
                x2[p6] = v57
            else:
                p9 = int32(i0 * s4 + i1)
                v58 = x1[p9]
                p10 = int32(v33 * s16 + i1)
                v59 = x1[p10]
                v60 = cuda.selp(v30, v59, v35)
                p11 = int32(v39 * s19 + i1)
                v61 = x1[p11]
                v62 = cuda.selp(v37, v61, v35)
                v63 = v60 + v62
                v64 = v63 + v35
                v65 = x1[p9 + c10]
                v66 = v64 + v65
                v67 = libdevice.fma(-v27, v58, v66)
                x2[p9] = v67
        task = uint32(task + step)
